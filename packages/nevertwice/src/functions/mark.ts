/**
 * For jobs that check and mark in two steps: `seen`, then the work, then `mark`. A mark is a completed record like that
 * of any run. Between the check and the mark somebody else may check too, and both do the work:
 *
 *   A: seen ── false ── work ───────── mark ── true
 *   B:     seen ── false ── work ────────── mark ── false
 *
 * Where that must not happen, claim.ts and `run` are the way: they check and take in one step.
 */

import { answersOf, BATCH_CHECKS, type BatchOptions, isList, settleEach } from "../core/each.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import {
  type Check,
  checkOptions,
  isFunction,
  mergePolicy,
  POLICY_CHECKS,
  type Policy,
} from "../core/policy.ts";
import type { Subject } from "../core/request.ts";
import { type RunResult, toError } from "../core/result.ts";

interface OnUnavailable {
  /** What to do when the store does not answer; default: as the guard does. */
  readonly onUnavailable?: Policy["onUnavailable"] | undefined;
}

export interface SeenOptions extends OnUnavailable {
  /**
   * Asked when the store knows of nothing that is done or under way: a truthy answer says that it is done all the same.
   * Your own database is the truth then, and the mark is written again.
   */
  readonly lookup?: ((subject: Subject) => unknown) | undefined;
}

export interface MarkOptions extends OnUnavailable {
  /** What a `run` of the same subject is answered with. */
  readonly value?: unknown;
  /** How long it counts as done; default: the guard's `markRetentionMs`, a minute. Marking again does not lengthen it. */
  readonly retentionMs?: number | undefined;
}

export interface Marks {
  /** Whether it is done: marked, or run to its end. What is under way is not done. Fails with `unavailable`. */
  seen(request: Subject & SeenOptions): Promise<boolean>;
  /**
   * True if this call marked it, false if it was done before. A call that meets another mark, or a run, waits for it, up
   * to `waitMs` and whatever `onPending` says. Fails with `pending` if that did not end in time, with `unknown`, or with
   * `unavailable`: also if the store did not confirm the mark, since then another caller may be told that it was first.
   */
  mark(request: Subject & MarkOptions): Promise<boolean>;
  /** Takes a mark back, so that the work may be done again. False if it was not done. */
  release(subject: Subject): Promise<boolean>;
  /**
   * Each answers in the order of what it is asked about; `options` hold for all that say nothing else. If one fails, the
   * others are done all the same, and the batch fails as it did; once the store does not answer, no more are begun.
   */
  seenBatch(
    requests: readonly (Subject & SeenOptions)[],
    options?: SeenOptions & BatchOptions,
  ): Promise<boolean[]>;
  markBatch(
    requests: readonly (Subject & MarkOptions)[],
    options?: MarkOptions & BatchOptions,
  ): Promise<boolean[]>;
  releaseBatch(subjects: readonly Subject[], options?: BatchOptions): Promise<boolean[]>;
}

/** Tells whoever watches the guard that a check was not answered, and that it went on without. */
export type TellMark = (kind: "unavailable" | "proceeded", subject: Subject, cause?: unknown) => void;

const anything: Check = () => {};

/** What they are is checked by the engine. */
const SUBJECT_CHECKS: { readonly [Name in keyof Required<Subject>]: Check } = {
  operation: anything,
  domain: anything,
  scope: anything,
  key: anything,
};
const { onUnavailable, retentionMs } = POLICY_CHECKS;
const SEEN_CHECKS = { lookup: isFunction, onUnavailable };
const MARK_CHECKS = { value: anything, retentionMs, onUnavailable };

export function marksOf(engine: Engine, tell: TellMark): Marks {
  async function seen(request: Subject & SeenOptions): Promise<boolean> {
    checkOptions(request, { ...SUBJECT_CHECKS, ...SEEN_CHECKS });
    const { lookup, onUnavailable: asked, ...subject } = request;
    const proceeds = mayProceed({ onUnavailable: asked });
    try {
      const record = await engine.read(subject);
      if (record?.state === "completed") return true;
      if (record?.state === "pending") return false;
    } catch (error) {
      if (!isNevertwiceError(error, "unavailable")) throw error;
      tell("unavailable", subject, error);
      if (!proceeds) throw error;
      tell("proceeded", subject);
      return Boolean(await lookup?.(subject));
    }
    if (!(await lookup?.(subject))) return false;
    // It is done, whether or not that can be written down now: if not, the next check asks `lookup` again.
    await markWith("reject", subject).catch(() => {});
    return true;
  }

  function mark(request: Subject & MarkOptions): Promise<boolean> {
    // Whatever the guard's own policy: a mark takes no time, so the caller gets its answer instead of an error.
    return markWith("wait", request);
  }

  async function markWith(onPending: Policy["onPending"], request: Subject & MarkOptions): Promise<boolean> {
    checkOptions(request, { ...SUBJECT_CHECKS, ...MARK_CHECKS });
    const { value, ...rest } = request;
    const { markRetentionMs, storeTimeoutMs } = engine.policy;
    const result: RunResult<unknown> = await engine.tryRun(
      {
        ...rest,
        retentionMs: request.retentionMs ?? markRetentionMs,
        // The record is all that a mark does, so it is waited for as long as any answer of the store.
        completeWaitMs: storeTimeoutMs,
        onCompleted: "reject",
        onPending,
      },
      () => value,
    );
    switch (result.status) {
      case "ran":
        if (result.recorded || mayProceed(request)) return true;
        throw notConfirmed();
      // Replayed or not kept: somebody took the key over and completed it while the store was slow to answer us.
      case "already-done":
      case "replayed":
      case "not-kept":
        return false;
      default:
        throw toError(result);
    }
  }

  /** The caller, or its guard, asked to go on when the store does not answer. */
  function mayProceed({ onUnavailable: asked }: OnUnavailable): boolean {
    return mergePolicy(engine.policy, { onUnavailable: asked }).onUnavailable === "proceed";
  }

  const release = (subject: Subject) => engine.reopen(subject);

  return {
    seen,
    mark,
    release,
    seenBatch: (requests, options = {}) => batch(seen, requests, options, SEEN_CHECKS),
    markBatch: (requests, options = {}) => batch(mark, requests, options, MARK_CHECKS),
    releaseBatch: (subjects, options = {}) => batch(release, subjects, options, {}),
  };
}

/** If the mark is not in the store, the next caller is told that it was first: so this one must not be told so. */
function notConfirmed(): NevertwiceError {
  return new NevertwiceError("unavailable", "the store did not confirm the mark in time; ask again.");
}

async function batch<Request extends Subject>(
  call: (request: Request) => Promise<boolean>,
  requests: readonly Request[],
  options: BatchOptions,
  checks: Readonly<Record<string, Check>>,
): Promise<boolean[]> {
  isList("the batch", requests);
  checkOptions(options, { ...checks, ...BATCH_CHECKS });
  const { concurrency, ...shared } = options;
  let outage: unknown;
  const callUnlessDown = async (request: Request): Promise<boolean> => {
    if (outage !== undefined) throw outage;
    try {
      return await call({ ...shared, ...request });
    } catch (error) {
      if (isNevertwiceError(error, "unavailable")) outage = error;
      throw error;
    }
  };
  return answersOf(await settleEach(requests, callUnlessDown, concurrency));
}
