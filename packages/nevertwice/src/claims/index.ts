/**
 * Claims whose work is done elsewhere: by a process that speaks to this one, in any language. Whoever claims is handed
 * the token and renews, completes or abandons with it, so that nothing about a claim is kept here: any copy of this
 * process can take the next call. The records are those of every guard.
 */
import { endingOfDecision } from "../core/attempt.ts";
import { createBackground } from "../core/background.ts";
import { bounded, isRefusal, pauseMs } from "../core/calls.ts";
import { claimRound } from "../core/claiming.ts";
import { systemTimer } from "../core/clock.ts";
import type { GuardOptions } from "../core/engine.ts";
import { GUARD_DEFAULTS } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { checkedPart, deriveKey } from "../core/identity.ts";
import { about, createEmit, observersIn } from "../core/observer.ts";
import { type RecordView, toView } from "../core/operator.ts";
import { decodeOutcome, type Outcome } from "../core/outcome.ts";
import {
  checkOptions,
  mergePolicy,
  oneOf,
  POLICY_CHECKS,
  POLICY_DEFAULTS,
  type PolicyOptions,
} from "../core/policy.ts";
import { outcomeLimit, type Ports } from "../core/ports.ts";
import { prepareCall, type RunRequest } from "../core/request.ts";
import { unavailable } from "../core/result.ts";
import type { AbandonAs, RecordState } from "../core/store.ts";
import { randomToken } from "../core/token.ts";

export interface ClaimsOptions
  extends Pick<GuardOptions, "store" | "namespace" | "observer">,
    Pick<PolicyOptions, "leaseMs" | "retentionMs" | "storeTimeoutMs" | "maxOutcomeBytes" | "onLapsed"> {}

export interface ClaimAsked
  extends Pick<
    RunRequest,
    "operation" | "scope" | "key" | "fingerprint" | "leaseMs" | "retentionMs" | "onLapsed"
  > {
  /** The caller's own name for this attempt, for a claim that is sent again because its answer was lost. */
  readonly token?: string | undefined;
}

export type ClaimAnswered =
  | {
      readonly status: "new";
      readonly id: string;
      readonly token: string;
      readonly fence: number;
      readonly number: number;
      readonly tookOver: boolean;
      readonly leaseMs: number;
      /** A key for another system, the same on every attempt. */
      deriveKey(name: string): string;
    }
  | { readonly status: "completed"; readonly id: string; readonly outcome: Outcome }
  | { readonly status: "pending"; readonly id: string; readonly leaseLeftMs: number }
  | { readonly status: "conflict"; readonly id: string; readonly state: RecordState }
  | { readonly status: "unknown"; readonly id: string; readonly fence: number };

/** Whose claim it is. */
export interface Held {
  readonly id: string;
  readonly token: string;
}

export type CompletedWith = { readonly value: unknown } | { readonly error: unknown };

export interface Claims {
  /** Fails with `unavailable` if the store does not answer; the claim is then given back. */
  claim(asked: ClaimAsked): Promise<ClaimAnswered>;
  /** False if the claim is not this token's any more. The same again answers the same. */
  complete(held: Held & CompletedWith & { readonly retentionMs?: number | undefined }): Promise<boolean>;
  abandon(held: Held & { readonly as: AbandonAs }): Promise<boolean>;
  renew(held: Held & { readonly leaseMs?: number | undefined }): Promise<boolean>;
  read(id: string): Promise<RecordView | undefined>;
}

const { leaseMs, retentionMs, storeTimeoutMs, maxOutcomeBytes, onLapsed } = POLICY_CHECKS;
const CLAIMS_CHECKS = {
  store: () => {},
  namespace: (name: string, value: unknown) => void checkedPart(value, name, "options-invalid"),
  observer: () => {},
  leaseMs,
  retentionMs,
  storeTimeoutMs,
  maxOutcomeBytes,
  onLapsed,
};
const ID = /^[0-9a-f]{64}$/;
const TRIES = 3;

export function createClaims(options: ClaimsOptions): Claims {
  checkOptions(options, CLAIMS_CHECKS);
  const { store, namespace = GUARD_DEFAULTS.namespace, observer, ...policies } = options;
  const policy = mergePolicy(POLICY_DEFAULTS, policies);
  const ports: Ports = {
    store,
    timer: systemTimer,
    random: Math.random,
    newToken: randomToken,
    emit: createEmit(observersIn(observer)),
    background: createBackground({ store, timer: systemTimer }, Math.random),
    requirement: undefined,
  };

  /** Repeats a call that was not answered: it carries its token, so it is the same call. */
  async function ask<T>(send: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await bounded(ports, policy.storeTimeoutMs, ({ signal }) => send(signal));
      } catch (error) {
        if (isRefusal(error) || tries === TRIES) throw unavailable(error);
        await new Promise<void>((resolve) => void systemTimer.after(pauseMs(tries, Math.random), resolve));
      }
    }
  }

  return {
    async claim({ token, ...asked }) {
      parsedJson(asked.fingerprint);
      const call = prepareCall(asked, namespace, policy);
      const { id, parts } = call.identity;
      const own = token === undefined ? ports : { ...ports, newToken: () => checkedToken(token) };
      const { round, answer } = await claimRound(own, call);
      switch (answer.status) {
        case "new": {
          const { fence, number, tookOver } = answer;
          ports.emit?.({ ...about(call.identity), kind: tookOver ? "taken-over" : "claimed", fence, number });
          const mine = { id, token: round.token, leaseMs: call.policy.leaseMs };
          return { ...answer, ...mine, deriveKey: (name) => deriveKey(parts, name) };
        }
        case "completed":
          ports.emit?.({ ...about(call.identity), kind: "replayed", refused: false });
          return { status: "completed", id, outcome: decodeOutcome(answer.outcome) };
        case "unavailable":
          ports.emit?.({
            ...about(call.identity),
            kind: "unavailable",
            during: "claim",
            cause: answer.error,
          });
          throw unavailable(answer.error);
        case "too-late":
          throw unavailable(new Error("the claim was answered after its lease had ended"));
        case "pending":
          ports.emit?.({ ...about(call.identity), kind: "pending", leaseLeftMs: answer.leaseLeftMs });
          return { ...answer, id };
        case "conflict":
          ports.emit?.({ ...about(call.identity), kind: "conflict", state: answer.state });
          return { ...answer, id };
        case "unknown":
          ports.emit?.({ ...about(call.identity), kind: "lapsed" });
          return { ...answer, id };
      }
    },

    async complete({ id, token, retentionMs: keptMs = policy.retentionMs, ...content }) {
      retentionMs("retentionMs", keptMs);
      const decision =
        "error" in content
          ? ({ status: "failed", error: content.error } as const)
          : ({ status: "done", value: content.value } as const);
      const ending = endingOfDecision(decision, outcomeLimit(ports, policy));
      if (ending.kind !== "complete")
        throw new NevertwiceError("options-invalid", "a completion has a value or an error.");
      const held = { id: checkedId(id), token: checkedToken(token) };
      return ask((signal) =>
        store.complete({ ...held, outcome: ending.outcome, retentionMs: keptMs, signal }),
      );
    },

    async abandon({ id, token, as }) {
      oneOf("released", "unknown", "unrun")("as", as);
      const held = { id: checkedId(id), token: checkedToken(token) };
      return ask((signal) => store.abandon({ ...held, as, signal }));
    },

    async renew({ id, token, leaseMs: longerMs = policy.leaseMs }) {
      leaseMs("leaseMs", longerMs);
      const held = { id: checkedId(id), token: checkedToken(token) };
      return ask((signal) => store.renew({ ...held, leaseMs: longerMs, signal }));
    },

    async read(id) {
      const record = await ask((signal) => store.read(checkedId(id), { signal }));
      return record && toView(record);
    },
  };
}

function checkedId(id: unknown): string {
  if (typeof id === "string" && ID.test(id)) return id;
  throw new NevertwiceError(
    "options-invalid",
    "id must be the 64 hexadecimal digits that the claim was answered with.",
  );
}

/** Whoever knows the token owns the claim, so it must not be guessed. */
const LEAST_TOKEN = 16;

function checkedToken(token: unknown): string {
  const text = checkedPart(token, "token", "options-invalid");
  if (text.length >= LEAST_TOKEN) return text;
  throw new NevertwiceError(
    "options-invalid",
    `token has ${text.length} characters; make one of ${LEAST_TOKEN} or more that nobody can guess, such as a UUID.`,
  );
}
