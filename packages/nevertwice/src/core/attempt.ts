/** One run of the work under one claim: the `attempt` object that the work gets, and what its return or throw means. */

import { completion, type Ending, type KeepLimits } from "./ending.ts";
import { enqueue } from "./enqueue.ts";
import { NevertwiceError } from "./errors.ts";
import { deriveKey, toErrorSubject } from "./identity.ts";
import type { FinishedStep } from "./kept-steps.ts";
import type { Lease } from "./lease.ts";
import { wholeFrom } from "./option-checks.ts";
import type { FailureDisposition } from "./policy.ts";
import type { Ports } from "./ports.ts";
import type { Call } from "./request.ts";
import type { Settlement } from "./round.ts";
import { isStepFailure } from "./step-errors.ts";
import { Steps } from "./steps.ts";
import type { Attempt } from "./work.ts";

export type { Attempt, Work } from "./work.ts";

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

  get keepFor(): Attempt["keepFor"] {
    return (ms) => {
      wholeFrom(1)("keepFor(ms)", ms);
      this.#settlement.keepForMs = ms;
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
