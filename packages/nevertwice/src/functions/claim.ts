/**
 * Claims as objects, for work that does not fit into one function, such as a batch that is claimed first and done later. A
 * claim is a run whose work is a promise that the holder settles. So its lease is renewed, ends after `maxRunMs`, and is
 * drained when the guard closes, as in any run.
 */

import { requireRequest } from "../core/argument-checks.ts";
import type { Attempt } from "../core/attempt.ts";
import {
  BATCH_CHECKS,
  type BatchOptions,
  isArrayOfRequests,
  settleEach,
  valuesOrFirstError,
} from "../core/batch.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/option-checks.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";

/** `onPending` is "reject" by default, so that a batch does not wait for other attempts. */
export type HeldRequest = Omit<RunRequest, "signal">;

/** An earlier attempt failed, and its error was remembered. */
interface RememberedFailure {
  readonly status: "failed";
  readonly error: unknown;
}

type Status<T, Name extends string> = Extract<RunResult<T>, { readonly status: Name }>;

/** Why there is no claim: the same values as from `tryRun`, and a remembered error, which `tryRun` would throw. */
export type Refusal<T = unknown> =
  | Exclude<RunResult<T>, { readonly status: "ran" | "lease-lost" }>
  | RememberedFailure;

/**
 * The result of a completion. `ran`: this outcome is replayed from now on, or as soon as the store confirms it.
 * `lease-lost`: another attempt owned the claim, or it had been given up. Any other: another attempt's outcome is replayed.
 */
export type Completion<T = unknown> =
  | Status<T, "ran" | "lease-lost" | "replayed" | "not-kept">
  | RememberedFailure;

/** A claim that the caller holds. The first call of `complete`, `fail` or `release` settles it. */
export interface Claimed<T = unknown>
  extends Pick<Attempt, "fence" | "number" | "signal" | "deriveKey" | "step" | "renew"> {
  readonly status: "claimed";
  /** The request that the claim was made for. */
  readonly request: HeldRequest;
  /** The work is done, and this is its outcome. A second call returns the same as the first. */
  complete(value: T): Promise<Completion<T>>;
  /** The work failed. `onFailure` decides what happens to the key. Resolves after the store was told. */
  fail(error: unknown): Promise<void>;
  /** Nothing was done: releases the key. Resolves after the store was told. */
  release(cause?: unknown): Promise<void>;
}

export interface ClaimMethods {
  /**
   * Claims a key, or says why it cannot. Rejects for an invalid request.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const claimed = await guard.claim<string>({ operation: "import", key: "file-7" });
   * if (claimed.status === "claimed") await claimed.complete("3 rows");
   * else console.log(`not now: ${claimed.status}`);
   * ```
   */
  claim<T = unknown>(request: HeldRequest): Promise<Claimed<T> | Refusal<T>>;
  /**
   * The results have the order of the requests. Of two requests for the same key, one gets the claim and the other
   * `pending`. If a request is invalid the batch rejects, and the claims that it got are released.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const requests = ["a", "b", "c"].map((key) => ({ operation: "import", key }));
   * for (const claim of await guard.claimBatch<string>(requests))
   *   if (claim.status === "claimed") await claim.complete("imported");
   * ```
   */
  claimBatch<T = unknown>(
    requests: readonly HeldRequest[],
    options?: BatchOptions,
  ): Promise<(Claimed<T> | Refusal<T>)[]>;
}

export function createClaimMethods(engine: Pick<Engine, "tryRun">): ClaimMethods {
  function claim<T>(request: HeldRequest): Promise<Claimed<T> | Refusal<T>> {
    return new Promise((resolve, reject) => {
      requireRequest(request);
      refuseSignal(request);
      let isClaimed = false;
      const claimRequest = { ...request, onPending: request.onPending ?? "reject" };
      const ended: Promise<RunResult<T> | RememberedFailure> = engine
        .tryRun<T>(claimRequest, (attempt) => {
          isClaimed = true;
          return new Promise<T>((done, failed) => {
            resolve(createClaimed({ request, attempt, done, failed, ended: () => ended }));
          });
        })
        .catch((error: unknown) => {
          // An error of the library is about the request. A remembered error is plain data, never an error of the library.
          if (!isClaimed && isNevertwiceError(error)) reject(error);
          return { status: "failed", error };
        });
      // This has no effect if the claim was granted.
      void ended.then((result) => resolve(result as Refusal<T>));
    });
  }

  return {
    claim,
    async claimBatch<T>(requests: readonly HeldRequest[], options: BatchOptions = {}) {
      isArrayOfRequests("the batch", requests);
      checkOptions(options, BATCH_CHECKS);
      let outage: Refusal<T> | undefined;
      const claimUnlessDown = async (request: HeldRequest) => {
        if (outage !== undefined) return outage;
        const answer = await claim<T>(request);
        if (isOutage(answer)) outage = answer;
        return answer;
      };
      const ends = await settleEach(requests, claimUnlessDown, options.concurrency);
      if (ends.some(({ status }) => status === "rejected")) await releaseAll(ends);
      return valuesOrFirstError(ends);
    },
  };
}

/** Not an Error: observers must not report a release as a failure. */
const RELEASED = { released: true };

interface HeldRun<T> {
  readonly request: HeldRequest;
  readonly attempt: Attempt;
  readonly done: (value: T) => void;
  readonly failed: (error: unknown) => void;
  readonly ended: () => Promise<RunResult<T> | RememberedFailure>;
}

function createClaimed<T>({ request, attempt, done, failed, ended }: HeldRun<T>): Claimed<T> {
  let settledBy: "complete" | "fail" | "release" | undefined;
  /** The first call settles the claim; later calls wait for its result. */
  async function settle(how: typeof settledBy, settling: () => void): Promise<Completion<T>> {
    if (settledBy === undefined) {
      settledBy = how;
      settling();
    }
    return (await ended()) as Completion<T>;
  }
  return {
    status: "claimed",
    request,
    fence: attempt.fence,
    number: attempt.number,
    get signal() {
      return attempt.signal;
    },
    deriveKey: attempt.deriveKey,
    step: attempt.step,
    renew: () => attempt.renew(),
    async complete(value) {
      const completion = await settle("complete", () => done(value));
      return settledBy === "complete" ? completion : { status: "lease-lost", value };
    },
    async fail(error) {
      await settle("fail", () => failed(error));
    },
    async release(cause) {
      await settle("release", () => failed(attempt.notDone(cause ?? RELEASED)));
    },
  };
}

/** The store is unreachable or the guard is closed: every other claim would wait and get the same answer. */
function isOutage<T>(answer: Claimed<T> | Refusal<T>): answer is Status<T, "unavailable"> {
  if (answer.status !== "unavailable") return false;
  return answer.error.code === "unavailable" || answer.error.code === "guard-closed";
}

async function releaseAll<T>(ends: readonly PromiseSettledResult<Claimed<T> | Refusal<T>>[]): Promise<void> {
  await Promise.all(
    ends.map((end) =>
      end.status === "fulfilled" && end.value.status === "claimed" ? end.value.release() : undefined,
    ),
  );
}

/** A signal only ends the wait for a result, so it would leave the claim behind. */
function refuseSignal(request: object): void {
  if ((request as RunRequest | undefined)?.signal === undefined) return;
  throw new NevertwiceError(
    "options-invalid",
    "a claim takes no signal: call release() when it is no longer needed.",
  );
}
