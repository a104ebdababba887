/**
 * For jobs that check and mark in two steps: `seen`, then the work, then `mark`. A mark is a completed record like that of
 * any run. Between the check and the mark another process may check too, and both do the work:
 *
 *   A: seen ── false ── work ───────── mark ── true
 *   B:     seen ── false ── work ────────── mark ── false
 *
 * Where that must not happen, use `claim` or `run`: they check and claim in one step.
 */

import { requireRequest } from "../core/argument-checks.ts";
import {
  BATCH_CHECKS,
  type BatchOptions,
  isArrayOfRequests,
  settleEach,
  valuesOrFirstError,
} from "../core/batch.ts";
import type { MarkEngine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { notifyObservers } from "../core/notify.ts";
import { type Check, checkOptions, isFunction } from "../core/option-checks.ts";
import { mergePolicy, POLICY_CHECKS, type Policy } from "../core/policy.ts";
import { refuseReservedOperation, type Subject } from "../core/request.ts";
import { errorSubjectFor, type RunResult, toError } from "../core/result.ts";
import { checkedToken } from "../core/token.ts";

interface OnUnavailable {
  /** What to do if the store does not answer; default: the guard's policy. */
  readonly onUnavailable?: Policy["onUnavailable"] | undefined;
}

/** Options of `guard.seen`. */
export interface SeenOptions extends OnUnavailable {
  /**
   * Called if the store has no completed or pending record. A truthy result says that the work is done, for example because
   * your own database says so. The mark is then written again.
   */
  readonly lookup?: ((subject: Subject) => unknown) | undefined;
}

/** Options of `guard.mark`. */
export interface MarkOptions extends OnUnavailable {
  /** The value that a `run` of the same subject replays. */
  readonly value?: unknown;
  /** How long the mark counts; default: the guard's `markRetentionMs`, a minute. Marking again does not extend it. */
  readonly retentionMs?: number | undefined;
  /**
   * The caller's own token for this mark, for a caller that lost the answer and retries: the token that made the mark gets
   * `true` again. At least 16 random characters. After the mark was released, the same token fails with `token-spent`.
   */
  readonly token?: string | undefined;
}

export interface Marks {
  /**
   * Whether the work is done: marked, or completed by a run. Running work is not done. Throws `unavailable`.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const alert = { operation: "alert", key: "disk-full" };
   * if (!(await guard.seen(alert))) {
   *   console.log("The disk is full.");
   *   await guard.mark({ ...alert, retentionMs: 3_600_000 });
   * }
   * ```
   */
  seen(request: Subject & SeenOptions): Promise<boolean>;
  /**
   * True if this call made the mark, false if the work was done before. A call that meets another mark or a run in progress
   * waits for it up to `waitMs`, whatever `onPending` says. Throws `pending` if that did not end in time, `unknown`, or
   * `unavailable`. It also throws `unavailable` if the store did not confirm the mark: another caller may get `true` then.
   */
  mark(request: Subject & MarkOptions): Promise<boolean>;
  /** Releases a mark, so that the work may be done again. False if it was not done. */
  release(subject: Subject): Promise<boolean>;
  /**
   * The results have the order of the requests. `options` are the defaults for each of them. If one fails, the others are
   * still made, and the batch rejects with that error. If the store does not answer, no further ones are started.
   */
  seenBatch(
    requests: readonly (Subject & SeenOptions)[],
    options?: SeenOptions & BatchOptions,
  ): Promise<boolean[]>;
  /** `mark` for many subjects, like `seenBatch`. */
  markBatch(
    requests: readonly (Subject & MarkOptions)[],
    options?: MarkOptions & BatchOptions,
  ): Promise<boolean[]>;
  /** `release` for many subjects, like `seenBatch`. */
  releaseBatch(subjects: readonly Subject[], options?: BatchOptions): Promise<boolean[]>;
}

/** Notifies the observers of the guard that a check was not answered, or that it proceeded without an answer. */
export type NotifyMark = (kind: "unavailable" | "proceeded", subject: Subject, cause?: unknown) => void;

const anything: Check = () => {};

/** The engine checks the values. */
const SUBJECT_CHECKS: { readonly [Name in keyof Required<Subject>]: Check } = {
  operation: anything,
  domain: anything,
  scope: anything,
  key: anything,
};
const { onUnavailable, retentionMs } = POLICY_CHECKS;
const SEEN_CHECKS = { lookup: isFunction, onUnavailable };
const MARK_CHECKS = {
  value: anything,
  retentionMs,
  onUnavailable,
  token: (_name: string, token: unknown) => void checkedToken(token),
};

export function createMarks(engine: MarkEngine, notify: NotifyMark): Marks {
  async function seen(request: Subject & SeenOptions): Promise<boolean> {
    requireRequest(request);
    checkOptions(request, { ...SUBJECT_CHECKS, ...SEEN_CHECKS });
    refuseReservedOperation(request);
    const { lookup, onUnavailable: asked, ...subject } = request;
    const proceeds = mayProceed({ onUnavailable: asked });
    try {
      const record = await engine.read(subject);
      const isSeen = record?.state === "completed";
      notifyObservers(engine, subject, { kind: "checked", by: "store", isSeen });
      if (isSeen) return true;
      if (record?.state === "pending") return false;
    } catch (error) {
      if (!isNevertwiceError(error, "unavailable")) throw error;
      notify("unavailable", subject, error);
      if (!proceeds) throw error;
      notify("proceeded", subject);
      return isKnownTo(lookup, subject);
    }
    if (!(await isKnownTo(lookup, subject))) return false;
    // The work is done. If the mark cannot be written now, the next check calls `lookup` again.
    await markWith("reject", subject).catch(() => {});
    return true;
  }

  /** The result of `lookup`; false if there is none. */
  async function isKnownTo(lookup: SeenOptions["lookup"], subject: Subject): Promise<boolean> {
    if (lookup === undefined) return false;
    const isSeen = Boolean(await lookup(subject));
    notifyObservers(engine, subject, { kind: "checked", by: "lookup", isSeen });
    return isSeen;
  }

  function mark(request: Subject & MarkOptions): Promise<boolean> {
    // Whatever the guard's policy says: a mark is quick, so waiting gives the caller a result instead of an error.
    return markWith("wait", request);
  }

  async function markWith(onPending: Policy["onPending"], request: Subject & MarkOptions): Promise<boolean> {
    requireRequest(request);
    checkOptions(request, { ...SUBJECT_CHECKS, ...MARK_CHECKS });
    const { value, token, ...rest } = request;
    const { markRetentionMs, storeTimeoutMs } = engine.policy;
    const result: RunResult<unknown> = await engine.tryRun(
      {
        ...rest,
        retentionMs: request.retentionMs ?? markRetentionMs,
        // A mark does nothing except write the record, so it waits for that as long as for any call of the store.
        completeWaitMs: storeTimeoutMs,
        onCompleted: "reject",
        onPending,
      },
      () => value,
      token,
    );
    switch (result.status) {
      case "ran":
        if (result.recorded || mayProceed(request)) return true;
        throw notConfirmed(result);
      // Replayed or not kept: another attempt took the key over and completed it while the store was slow.
      case "already-done":
      case "replayed":
      case "not-kept":
        return false;
      default:
        throw toError(result);
    }
  }

  /** Whether the request, or else the guard, says to proceed if the store does not answer. */
  function mayProceed({ onUnavailable: asked }: OnUnavailable): boolean {
    return mergePolicy(engine.policy, { onUnavailable: asked }).onUnavailable === "proceed";
  }

  async function release(subject: Subject): Promise<boolean> {
    requireRequest(subject);
    checkOptions(subject, SUBJECT_CHECKS);
    refuseReservedOperation(subject);
    return engine.reopen(subject);
  }

  return {
    seen,
    mark,
    release,
    seenBatch: (requests, options = {}) => batch(seen, requests, options, SEEN_CHECKS),
    markBatch: (requests, options = {}) => batch(mark, requests, options, MARK_CHECKS),
    releaseBatch: (subjects, options = {}) => batch(release, subjects, options, {}),
  };
}

/** If the mark is not in the store, the next caller gets `true`. So this caller must not get `true` as well. */
function notConfirmed(result: RunResult<unknown>): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    "the store did not confirm the mark in time; try again.",
    errorSubjectFor(result),
  );
}

async function batch<Request extends Subject>(
  call: (request: Request) => Promise<boolean>,
  requests: readonly Request[],
  options: BatchOptions,
  checks: Readonly<Record<string, Check>>,
): Promise<boolean[]> {
  isArrayOfRequests("the batch", requests);
  checkOptions(options, { ...checks, ...BATCH_CHECKS });
  const { concurrency, ...shared } = options;
  let outage: unknown;
  const callUnlessDown = async (request: Request): Promise<boolean> => {
    if (outage !== undefined) throw outage;
    requireRequest(request);
    try {
      return await call({ ...shared, ...request });
    } catch (error) {
      if (isNevertwiceError(error, "unavailable")) outage = error;
      throw error;
    }
  };
  return valuesOrFirstError(await settleEach(requests, callUnlessDown, concurrency));
}
