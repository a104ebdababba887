/** One run of the work under one claim: the `attempt` object that the work gets, and what its return or throw means. */

import { describeUnkeepable } from "./describe-unkeepable.ts";
import { enqueue } from "./enqueue.ts";
import { NevertwiceError } from "./errors.ts";
import { deriveKey, describeType, toErrorSubject } from "./identity.ts";
import type { FinishedStep } from "./kept-steps.ts";
import type { Lease } from "./lease.ts";
import { encodeOutcome, type KeptOutcome, keepValue, notKept } from "./outcome.ts";
import type { Decision, FailureDisposition } from "./policy.ts";
import type { Ports } from "./ports.ts";
import type { Call, KeepOptions } from "./request.ts";
import type { Settlement } from "./round.ts";
import { isStepFailure } from "./step-errors.ts";
import { Steps } from "./steps.ts";
import type { AbandonAs } from "./store.ts";
import type { Attempt } from "./work.ts";

export type { Attempt, Work } from "./work.ts";

/** How an attempt ended, and so what the store is told. */
export type Ending =
  | {
      readonly kind: "complete";
      /** The outcome to store: text, unless the limits say that the store keeps values. */
      readonly outcome: KeptOutcome;
      /** Why the value was not stored, if `outcome` only says that the work is done. */
      readonly notKept: string | undefined;
      /** Why duplicates cannot get what the work returned, for a warning. */
      readonly unreplayable?: string | undefined;
      readonly content: { readonly value: unknown } | { readonly thrown: unknown };
    }
  | { readonly kind: "abandon"; readonly as: AbandonAs; readonly thrown: unknown };

/** The limit of a stored outcome, and the origin that is stored with it. */
export interface KeepLimits {
  readonly maxOutcomeBytes: number;
  readonly origin?: string | undefined;
  /** The store keeps plain values as they are. */
  readonly keepsValues?: boolean | undefined;
}

/** The attempt that made each error of `notDone`. */
const notDoneBy = new WeakMap<object, Attempt>();

/**
 * A class, since every attempt has one: its methods are created once and not for every attempt. Work may take a method out of
 * the attempt (`const { step } = attempt`), so each of them is bound, but only when it is asked for.
 */
class HandedAttempt implements Attempt {
  readonly fence: number;
  readonly number: number;
  /** Created by the first step, since most work has none. */
  steps: Steps | undefined;
  readonly #ports: Ports;
  readonly #settlement: Settlement;
  readonly #lease: Lease;

  constructor(ports: Ports, settlement: Settlement, lease: Lease, number: number) {
    this.fence = settlement.fence;
    this.number = number;
    this.steps = undefined;
    this.#ports = ports;
    this.#settlement = settlement;
    this.#lease = lease;
  }

  get deriveKey(): Attempt["deriveKey"] {
    return (name) => {
      const { identity } = this.#settlement.call;
      if (this.#lease.isLost())
        throw new NevertwiceError(
          "lease-lost",
          "this attempt lost its claim; start no further effect.",
          toErrorSubject(identity),
        );
      return deriveKey(identity.parts, name);
    };
  }

  get step(): Attempt["step"] {
    return (name: string, ...rest: readonly never[]) => {
      const steps = this.openSteps();
      const [database, work] = rest;
      return rest.length > 1
        ? (steps.transact(name, database, work as never, this) as never)
        : (steps.run(name, database as never) as never);
    };
  }

  get enqueue(): Attempt["enqueue"] {
    return (topic, body, options) => {
      const { call, fence } = this.#settlement;
      const from = { attempt: this, parts: call.identity.parts, fence, outbox: this.#ports.outbox };
      return enqueue(from, topic, body, options);
    };
  }

  get notDone(): Attempt["notDone"] {
    return (cause) => {
      const error = new Error("nothing was done", { cause });
      notDoneBy.set(error, this);
      return error;
    };
  }

  get signal(): AbortSignal {
    return this.#lease.signal();
  }

  renew(): Promise<boolean> {
    return this.#lease.renew();
  }

  openSteps(): Steps {
    this.steps ??= new Steps(this.#ports, this.#settlement, this.#lease);
    return this.steps;
  }
}

export function createAttempt(ports: Ports, settlement: Settlement, lease: Lease, number: number): Attempt {
  return new HandedAttempt(ports, settlement, lease, number);
}

/** The work begins again under the same claim: it gets the outcomes of the steps that it has finished. */
export function restartSteps(attempt: Attempt): void {
  (attempt as HandedAttempt).steps?.restart();
}

/**
 * The finished steps of the key, from earlier attempts and from this one. Work that calls this does not ask for a finished
 * step again: its next step follows them.
 */
export function takeKeptSteps(attempt: Attempt): readonly FinishedStep[] {
  return (attempt as HandedAttempt).openSteps().takeKept();
}

/**
 * Ends the steps of an attempt whose work has ended. Returns why no attempt of this work can continue the steps that are
 * kept, if that is so.
 */
export function stuckSteps(attempt: Attempt): string | undefined {
  return (attempt as HandedAttempt).steps?.end();
}

/** The work returned. If its value cannot be stored the key is completed without it: the work is done and must not run again. */
export function endingFromValue(
  value: unknown,
  limits: KeepLimits,
  keep: KeepOptions<unknown, unknown>,
): Ending {
  const { shorten, encode, decode } = keep;
  if (encode !== undefined && decode !== undefined) return codedEnding(value, limits, encode, decode);
  const ending = completion("value", value, limits);
  if (ending.notKept === undefined) return ending;
  const outcome = shorten && shortened(value, shorten, limits);
  if (outcome !== undefined) return { ...ending, outcome };
  return ending.outcome === NOT_ENCODABLE ? { ...ending, unreplayable: describeUnkeepable(value) } : ending;
}

const NOT_ENCODABLE = notKept("not-encodable");

/** Stores what `encode` returns. Whatever fails here, the work is done, and its caller gets what it returned. */
function codedEnding(
  value: unknown,
  limits: KeepLimits,
  encode: (value: unknown) => unknown,
  decode: (kept: unknown) => unknown,
): Ending {
  const failed = (unreplayable: string) => {
    const content = { value };
    return {
      kind: "complete",
      outcome: NOT_ENCODABLE,
      notKept: unreplayable,
      unreplayable,
      content,
    } as const;
  };
  let kept: unknown;
  try {
    kept = encode(value);
  } catch (error) {
    return failed(`encode threw: ${errorMessage(error)}`);
  }
  const ending = completion("value", kept, limits);
  if (ending.notKept !== undefined) {
    const isEncodable = ending.outcome !== NOT_ENCODABLE;
    const unreplayable = isEncodable ? undefined : `in what encode returned, ${describeUnkeepable(kept)}`;
    return { ...ending, unreplayable, content: { value } };
  }
  try {
    return { ...ending, content: { value: decode("value" in ending.content ? ending.content.value : kept) } };
  } catch (error) {
    return { ...ending, unreplayable: `decode threw: ${errorMessage(error)}`, content: { value } };
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : describeType(error);
}

/** The encoded result of `shorten`; undefined if that cannot be stored either. */
function shortened(
  value: unknown,
  shorten: (value: unknown) => unknown,
  { maxOutcomeBytes, origin }: KeepLimits,
): string | undefined {
  try {
    const encoded = encodeOutcome("value", shorten(value), maxOutcomeBytes, origin);
    return encoded.kept ? encoded.text : undefined;
  } catch {
    // `shorten` threw. The record still says that the work is done.
    return undefined;
  }
}

/** The work threw: the key is released, the error is remembered, or the outcome is unknown. */
export function endingFromThrow(
  thrown: unknown,
  call: Call,
  attempt: Attempt,
  lease: Lease,
  limits: KeepLimits,
): Ending {
  if (typeof thrown === "object" && thrown !== null && notDoneBy.get(thrown) === attempt) {
    return { kind: "abandon", as: "released", thrown: (thrown as Error).cause ?? thrown };
  }
  // The effect may have happened although its confirmation was cut off, so it is not known that the work failed.
  const isCutOff = lease.isLost() || call.signal?.aborted || (attempt as HandedAttempt).steps?.isRunning;
  if (isCutOff || isStepFailure(thrown)) return { kind: "abandon", as: "unknown", thrown };
  switch (judgeFailure(thrown, call)) {
    case "remember":
      return completion("thrown", thrown, limits);
    case "release":
      return { kind: "abandon", as: "released", thrown };
    default:
      return { kind: "abandon", as: "unknown", thrown };
  }
}

/** An operator or `reconcile` decided how an earlier attempt ended. Anything else than a decision leaves the outcome unknown. */
export function endingFromDecision(
  decision: Decision | { readonly status: "unknown" },
  maxOutcomeBytes: number,
): Ending {
  switch (decision?.status) {
    case "done":
      return completion("value", decision.value, { maxOutcomeBytes });
    case "failed":
      return completion("thrown", decision.error, { maxOutcomeBytes });
    case "not-done":
      return { kind: "abandon", as: "released", thrown: undefined };
    default:
      return { kind: "abandon", as: "unrun", thrown: undefined };
  }
}

function judgeFailure(thrown: unknown, call: Call): FailureDisposition {
  const { onFailure } = call.policy;
  if (typeof onFailure !== "function") return onFailure;
  try {
    return onFailure(thrown);
  } catch {
    // `onFailure` threw, so it is not known what the failure means.
    return "unknown";
  }
}

function completion(
  kind: "value" | "thrown",
  content: unknown,
  { maxOutcomeBytes, origin, keepsValues }: KeepLimits,
): Ending & { kind: "complete" } {
  const kept = keepsValues && kind === "value" ? keepValue(content, maxOutcomeBytes, origin) : undefined;
  if (kept !== undefined)
    return { kind: "complete", outcome: kept, notKept: undefined, content: { value: kept.decode().value } };
  const encoded = encodeOutcome(kind, content, maxOutcomeBytes, origin);
  // The first caller gets the decoded value, exactly as a replay will.
  const given = encoded.kept ? encoded.content : content;
  return {
    kind: "complete",
    outcome: encoded.kept ? encoded.text : notKept(encoded.reason),
    notKept: encoded.kept ? undefined : encoded.detail,
    content: kind === "value" ? { value: given } : { thrown: copyStack(given, content) },
  };
}

/** Gives the first caller's copy of a remembered error the stack of the original. */
function copyStack(copy: unknown, original: unknown): unknown {
  if (copy !== original && copy instanceof Error && original instanceof Error) {
    Object.defineProperty(copy, "stack", { value: original.stack, configurable: true, writable: true });
  }
  return copy;
}
