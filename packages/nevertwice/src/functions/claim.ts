/**
 * Claims that one holds in one's hand, for work that does not fit into one function: a batch that is claimed first and
 * done afterwards. A claim is a run whose work is a promise that its holder settles, so that its lease is renewed, ends
 * after `maxRunMs`, and is drained when the guard closes, as with any run.
 */
import type { Attempt } from "../core/attempt.ts";
import { answersOf, BATCH_CHECKS, type BatchOptions, isList, settleEach } from "../core/each.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";

/** `onPending` is "reject" unless it is given: a batch waits for nobody. */
export type HeldRequest = Omit<RunRequest, "signal">;

/** An earlier attempt failed for good, and its error is remembered. */
interface Failed {
  readonly status: "failed";
  readonly error: unknown;
}

type Status<T, Name extends string> = Extract<RunResult<T>, { readonly status: Name }>;

/** Why there is no claim: as `tryRun` says it, but for a remembered error, which is a value here. */
export type Refusal<T = unknown> = Exclude<RunResult<T>, { readonly status: "ran" | "lease-lost" }> | Failed;

/**
 * What became of a completion: `ran` if it answers for the key from now on, or will once the store says so; `lease-lost`
 * if the claim was another's by then, or had been given up; the others if another attempt's outcome answers instead.
 */
export type Completion<T = unknown> = Status<T, "ran" | "lease-lost" | "replayed" | "not-kept"> | Failed;

/** A claim that is held. Whoever holds it settles it, by the first of `complete`, `fail` and `release` that is called. */
export interface Claimed<T = unknown>
  extends Pick<Attempt, "fence" | "number" | "signal" | "deriveKey" | "renew"> {
  readonly status: "claimed";
  readonly request: HeldRequest;
  /** The work is done, and this is its outcome. Called again, it answers as the first time. */
  complete(value: T): Promise<Completion<T>>;
  /** The work failed: what becomes of the key is for `onFailure` to say. Resolves once the store was told. */
  fail(error: unknown): Promise<void>;
  /** Nothing was done: gives the key back. Resolves once the store was told. */
  release(cause?: unknown): Promise<void>;
}

export interface Claims {
  /** Takes a key, or says why not. Fails for a request that is itself wrong. */
  claim<T = unknown>(request: HeldRequest): Promise<Claimed<T> | Refusal<T>>;
  /**
   * Answers in the order of the requests. Of two requests for one key one has it, and the other is told `pending`. If a
   * request is itself wrong the batch fails, and what was claimed is given back.
   */
  claimBatch<T = unknown>(
    requests: readonly HeldRequest[],
    options?: BatchOptions,
  ): Promise<(Claimed<T> | Refusal<T>)[]>;
}

export function claimsOf(engine: Pick<Engine, "tryRun">): Claims {
  function claim<T>(request: HeldRequest): Promise<Claimed<T> | Refusal<T>> {
    return new Promise((resolve, reject) => {
      refuseSignal(request);
      let isClaimed = false;
      const asked = { ...request, onPending: request?.onPending ?? "reject" };
      const ended: Promise<RunResult<T> | Failed> = engine
        .tryRun<T>(asked, (attempt) => {
          isClaimed = true;
          return new Promise<T>((done, failed) => {
            resolve(claimedBy({ request, attempt, done, failed, ended: () => ended }));
          });
        })
        .catch((error: unknown) => {
          // What the library throws is about the request. What it remembers of another's failure is never its own error.
          if (!isClaimed && isNevertwiceError(error)) reject(error);
          return { status: "failed", error };
        });
      // Once it is claimed, this changes nothing.
      ended.then((result) => resolve(result as Refusal<T>));
    });
  }

  return {
    claim,
    async claimBatch<T>(requests: readonly HeldRequest[], options: BatchOptions = {}) {
      isList("the batch", requests);
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
      return answersOf(ends);
    },
  };
}

/** Nothing went wrong: whoever watches should not see an error. */
const RELEASED = { released: true };

interface Holding<T> {
  readonly request: HeldRequest;
  readonly attempt: Attempt;
  readonly done: (value: T) => void;
  readonly failed: (error: unknown) => void;
  readonly ended: () => Promise<RunResult<T> | Failed>;
}

function claimedBy<T>({ request, attempt, done, failed, ended }: Holding<T>): Claimed<T> {
  let settledBy: "complete" | "fail" | "release" | undefined;
  /** The first one settles; the others wait for what that came to. */
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

/** The others would be told the same, each after its own patience. */
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

/** It would end the wait for an answer that nobody waits for yet, and leave the claim. */
function refuseSignal(request: object): void {
  if ((request as RunRequest | undefined)?.signal === undefined) return;
  throw new NevertwiceError("options-invalid", "a claim takes no signal: release it when it is not wanted.");
}
