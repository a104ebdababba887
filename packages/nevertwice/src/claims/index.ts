/**
 * Claims whose work is done elsewhere, by another process in any language that calls this one. The caller gets the token,
 * and renews, completes or abandons with it. So this process keeps no state about a claim, and any other copy of it can
 * take the next call. The records are the same as those of a guard.
 */

import { requireRequest } from "../core/argument-checks.ts";
import { createBackground, within } from "../core/background.ts";
import { claimRound, type RoundAnswer } from "../core/claim-round.ts";
import { endingFromDecision } from "../core/ending.ts";
import {
  type EnginePorts,
  GUARD_DEFAULTS,
  type GuardOptions,
  PARTS_CHECKS,
  requireStore,
  SYSTEM_PORTS,
} from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { deriveKey, type Identity, toErrorSubject } from "../core/identity.ts";
import { createEmit, observersIn } from "../core/observer.ts";
import { checkOptions, isBoolean, oneOf } from "../core/option-checks.ts";
import { decodeOutcome, type Outcome, outcomeText } from "../core/outcome.ts";
import { mergePolicy, POLICY_CHECKS, POLICY_DEFAULTS, type PolicyOptions } from "../core/policy.ts";
import { outcomeLimit, type Ports } from "../core/ports.ts";
import { createPurger } from "../core/purger.ts";
import { type RecordView, toView } from "../core/record-view.ts";
import { replayFault } from "../core/replay-fault.ts";
import { reportClaim, reportReplay, tooLate } from "../core/report.ts";
import { type Call, prepareCall, type RunRequest } from "../core/request.ts";
import { closed, unavailable } from "../core/result.ts";
import type { AbandonAs, RecordState } from "../core/store.ts";
import type { Deadline } from "../core/store-call.ts";
import { checkedToken } from "../core/token.ts";
import { createAskStore } from "./ask-store.ts";
import { type AttemptReport, createAttempts } from "./attempts.ts";

/** Options of `createClaims`: the store, and the policies of all claims. */
export interface ClaimsOptions
  extends Pick<GuardOptions, "store" | "namespace" | "observer" | "purgeEveryMs" | "drainMs">,
    Pick<PolicyOptions, "leaseMs" | "retentionMs" | "storeTimeoutMs" | "maxOutcomeBytes" | "onLapsed"> {}

/** The key that is to be claimed, and the policies of this claim. */
export interface ClaimAsked
  extends Pick<
    RunRequest,
    "operation" | "scope" | "key" | "fingerprint" | "leaseMs" | "retentionMs" | "onLapsed"
  > {
  /** The caller's own token for this attempt, for a claim that is sent again because its answer was lost. */
  readonly token?: string | undefined;
  /**
   * Whether a claim that the store did not answer is given back in the background. Default: only if `token` was not
   * given. Never set it for a token that its owner may send again: the owner would lose the claim while it works.
   */
  readonly giveBack?: boolean | undefined;
}

/** The answer to a claim. Only with `new` may the caller do the work. */
export type ClaimAnswered =
  | {
      readonly status: "new";
      /** The id of the record: 64 hex digits. */
      readonly id: string;
      /** The token that owns the claim. Keep it secret: it completes, renews and abandons the claim. */
      readonly token: string;
      /** Grows with every claim of the key: pass it to systems that can refuse a lower one. */
      readonly fence: number;
      /** Which attempt this is, from 1. */
      readonly number: number;
      /** True if an earlier attempt lapsed: its outcome is unknown. */
      readonly tookOver: boolean;
      /** How long the claim holds unless the caller renews it, in milliseconds. */
      readonly leaseMs: number;
      /** A key for another system, the same on every attempt. */
      deriveKey(name: string): string;
    }
  | {
      readonly status: "completed";
      readonly id: string;
      /** What the earlier attempt was completed with. */
      readonly outcome: Outcome;
    }
  | {
      readonly status: "pending";
      readonly id: string;
      /** How long the other attempt holds the key if it does not renew, in milliseconds. */
      readonly leaseLeftMs: number;
      /** How long the other attempt has run, by the store's clock, if it is known. */
      readonly elapsedMs?: number | undefined;
    }
  | {
      readonly status: "conflict";
      readonly id: string;
      /** The state of the record that has another fingerprint. */
      readonly state: RecordState;
    }
  | { readonly status: "unknown"; readonly id: string; readonly fence: number }
  /** This token gave its claim up earlier: claim with a fresh token. */
  | { readonly status: "token-spent"; readonly id: string };

/** The claim: its id, and the token that owns it. */
export interface Held {
  /** The id that the claim was answered with. */
  readonly id: string;
  /** The token that the claim was answered with. */
  readonly token: string;
}

/** How the work ended: with a value, or with an error that duplicates get too. */
export type CompletedWith =
  | {
      /** What duplicates get. It must be encodable: JSON, bytes, dates, bigints, maps, sets. */
      readonly value: unknown;
    }
  | {
      /** The error that duplicates get. */
      readonly error: unknown;
    };

/**
 * Claims whose work is done elsewhere, for example by the client of a server. No lease is renewed by itself.
 */
export interface Claims {
  /**
   * Throws `unavailable` if the store does not answer. If a token was given, the claim may have been made: send the same
   * token again, or abandon it as `unrun` with the `id` of the error.
   */
  claim(asked: ClaimAsked): Promise<ClaimAnswered>;
  /** False if this token no longer owns the claim. A repeated call gets the same answer. */
  complete(
    held: Held &
      CompletedWith & {
        /**
         * How long the outcome is kept, in milliseconds.
         * @default the `retentionMs` of the claim's options
         */
        readonly retentionMs?: number | undefined;
      },
  ): Promise<boolean>;
  /**
   * Ends the claim without an outcome. False if this token no longer owns it.
   * @throws `unavailable`
   */
  abandon(
    held: Held & {
      /** `released`: the key is free. `unknown`: the key lapses now. `unrun`: the work never started. */
      readonly as: AbandonAs;
    },
  ): Promise<boolean>;
  /**
   * Prolongs the claim. False if this token no longer owns it.
   * @throws `unavailable`
   */
  renew(
    held: Held & {
      /**
       * The new lease, in milliseconds from now.
       * @default the lease of the options
       */
      readonly leaseMs?: number | undefined;
    },
  ): Promise<boolean>;
  /**
   * The record as operators see it; undefined if it is absent or expired.
   * @throws `unavailable`
   */
  read(id: string): Promise<RecordView | undefined>;
  /** Takes no new claims, and waits up to `drainMs` for claims that are being given back. The store stays open. */
  close(): Promise<void>;
}

const { leaseMs, retentionMs, storeTimeoutMs, maxOutcomeBytes, onLapsed } = POLICY_CHECKS;
const CLAIMS_CHECKS = {
  ...PARTS_CHECKS,
  leaseMs,
  retentionMs,
  storeTimeoutMs,
  maxOutcomeBytes,
  onLapsed,
};
const ID = /^[0-9a-f]{64}$/;

/**
 * Creates claims for work that is done elsewhere, for example by the clients of a server. `enginePorts` are for simulations.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createClaims } from "nevertwice/claims";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const claims = createClaims({ store: memoryStore() });
 * const claim = await claims.claim({ operation: "import", key: "file-7" });
 * if (claim.status === "new") await claims.complete({ id: claim.id, token: claim.token, value: "3 rows" });
 * await claims.close();
 * ```
 */
export function createClaims(options: ClaimsOptions, enginePorts: EnginePorts = SYSTEM_PORTS): Claims {
  requireStore(options, "createClaims");
  checkOptions(options, CLAIMS_CHECKS);
  const {
    store,
    namespace = GUARD_DEFAULTS.namespace,
    observer,
    purgeEveryMs = GUARD_DEFAULTS.purgeEveryMs,
    drainMs = GUARD_DEFAULTS.drainMs,
    ...policies
  } = options;
  const policy = mergePolicy(POLICY_DEFAULTS, policies);
  const ports: Ports = {
    ...enginePorts,
    store,
    emit: createEmit(observersIn(observer)),
    background: createBackground({ store, timer: enginePorts.timer }, enginePorts.random),
    requirement: undefined,
  };
  const purger = createPurger(ports, purgeEveryMs, policy.storeTimeoutMs);
  const askStore = createAskStore(ports, policy.storeTimeoutMs);
  const attempts = createAttempts(ports);
  let isClosed = false;

  /** Every call except `claim` goes through this function. */
  function ask<T>(send: (deadline: Deadline) => Promise<T>): Promise<T> {
    purger.used();
    return askStore(send);
  }

  /**
   * Sends a step of a held claim to the store, and reports the answer to the observers. They may need a lookup of the claim
   * first. It is made once and within the same time limit, so that an observer cannot cost the caller its answer.
   */
  async function sendStep(
    { id, token }: Held,
    send: (held: Held, signal: AbortSignal | undefined) => Promise<boolean>,
    report: (attempt: AttemptReport, isOurs: boolean) => void,
  ): Promise<boolean> {
    const held = { id: checkedId(id), token: checkedToken(token) };
    let attempt: AttemptReport | undefined;
    let isLookedUp = false;
    const isOurs = await ask(async (deadline) => {
      if (!isLookedUp) {
        isLookedUp = true;
        attempt = await attempts.find(held, deadline).catch(() => undefined);
        // The next try has been sent in the meantime, or the caller no longer waits.
        if (deadline.isOver) throw new Error("the lookup of the claim was not answered in time");
      }
      return send(held, deadline.signal);
    });
    if (attempt !== undefined) report(attempt, isOurs);
    return isOurs;
  }

  function prepareRound(request: ClaimAsked) {
    requireRequest(request);
    const { token, giveBack = token === undefined, ...asked } = request;
    isBoolean("giveBack", giveBack);
    parsedJson(asked.fingerprint);
    const given = token === undefined ? undefined : checkedToken(token);
    const call: Call = {
      ...prepareCall(asked, namespace, policy),
      token: giveBack ? undefined : given,
    };
    const own = given === undefined ? ports : { ...ports, newToken: () => given };
    return { call, isGivenBack: giveBack, sent: () => claimRound(own, call) };
  }

  return {
    async claim(asked) {
      const { call, isGivenBack, sent } = prepareRound(asked);
      if (isClosed) throw unavailable(closed(), { identity: call.identity });
      purger.used();
      const { round, answer } = await sent();
      const { id, parts } = call.identity;
      if (!attempts.isRepeat(id, round.token, answer)) reportClaim(ports.emit, call.identity, answer);
      switch (answer.status) {
        case "new": {
          attempts.started(call, round, answer.fence);
          const mine = { id, token: round.token, leaseMs: call.policy.leaseMs };
          return { ...answer, ...mine, deriveKey: (name) => deriveKey(parts, name) };
        }
        case "completed": {
          const outcome = decodeOutcome(answer.outcome);
          reportReplay(ports.emit, call.identity, outcome, replayFault(outcome, undefined));
          return { status: "completed", id, outcome };
        }
        case "unavailable":
        case "too-late":
          throw unanswered(answer, call.identity, isGivenBack);
        default:
          return { ...answer, id };
      }
    },

    async complete({ id, token, retentionMs: keptMs = policy.retentionMs, ...content }) {
      retentionMs("retentionMs", keptMs);
      const decision =
        "error" in content
          ? ({ status: "failed", error: content.error } as const)
          : ({ status: "done", value: content.value } as const);
      const ending = endingFromDecision(decision, outcomeLimit(ports, policy));
      if (ending.kind !== "complete")
        throw new NevertwiceError("options-invalid", "a completion needs a value or an error.");
      const { notKept } = ending;
      const text = outcomeText(ending.outcome);
      return sendStep(
        { id, token },
        (held, signal) => store.complete({ ...held, outcome: text, retentionMs: keptMs, signal }),
        (attempt, isOurs) => attempt.completed(isOurs, notKept),
      );
    },

    async abandon({ id, token, as }) {
      oneOf("released", "unknown", "unrun")("as", as);
      return sendStep(
        { id, token },
        (held, signal) => store.abandon({ ...held, as, signal }),
        (attempt, isOurs) => attempt.abandoned(isOurs, as),
      );
    },

    async renew({ id, token, leaseMs: longerMs = policy.leaseMs }) {
      leaseMs("leaseMs", longerMs);
      return sendStep(
        { id, token },
        (held, signal) => store.renew({ ...held, leaseMs: longerMs, signal }),
        (attempt, isOurs) => attempt.renewed(isOurs, longerMs),
      );
    },

    async read(id) {
      const record = await ask(({ signal }) => store.read(checkedId(id), { signal }));
      return record && toView(record);
    },

    async close() {
      isClosed = true;
      purger.stop();
      await within(ports.timer, drainMs, ports.background.idle());
      ports.background.stop();
    },
  };
}

/** The store did not say whether the claim was made. Only the owner of the token can act on that. */
function unanswered(
  answer: RoundAnswer & { readonly status: "unavailable" | "too-late" },
  identity: Identity,
  isGivenBack: boolean,
): NevertwiceError {
  const cause = answer.status === "too-late" ? tooLate() : answer.error;
  const waitedMs = answer.status === "unavailable" ? answer.waitedMs : undefined;
  const isSure = answer.status === "unavailable" && answer.isRefused;
  if (isSure || isGivenBack) return unavailable(cause, { waitedMs, identity });
  const error = new NevertwiceError(
    "unavailable",
    "the store did not say whether the claim was made; send the same token again, or abandon it as unrun.",
    { cause, waitedMs, ...toErrorSubject(identity) },
  );
  return Object.assign(error, { id: identity.id });
}

function checkedId(id: unknown): string {
  if (typeof id === "string" && ID.test(id)) return id;
  throw new NevertwiceError(
    "options-invalid",
    "id must be the 64 hexadecimal digits that the claim was answered with.",
  );
}
