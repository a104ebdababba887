/**
 * `exclusive`: a lock with a name, held by one process at a time. It is a claim like every other, but only its fence is
 * remembered: the claim is given up when the work ends, however it ends. Only the fence is safe: a holder that was paused
 * may wake up after its lease has ended, when another process holds the lock, and not know it yet.
 */
import type { Attempt } from "../core/attempt.ts";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Key, keyText } from "../core/key.ts";
import { checkOptions, isFunction } from "../core/option-checks.ts";
import { POLICY_CHECKS } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import { reserved } from "../core/reserved.ts";
import { errorSubjectFor, itselfHint, type RunResult } from "../core/result.ts";
import { isRefusal } from "../core/store-call.ts";

/** The operation of every lock. */
const LOCK = reserved("exclusive");

/** The lock, as the work gets it. */
export interface Lock {
  /** The name of the lock. */
  readonly name: string;
  /** Grows with every holder: pass it to systems that can refuse a lower one. */
  readonly fence: number;
  /** Fires when the lock is lost: stop before the next effect. */
  readonly signal: AbortSignal;
  /** Whether the lease still holds by the clock of this process. It does not ask the store. False after the work has ended. */
  owned(): boolean;
  /** Renews the lease now, in addition to the automatic renewals. False if the lock is lost; `unavailable` if the store does not answer. */
  extend(): Promise<boolean>;
}

/** Durations are milliseconds. The guard's policies are the defaults. */
export interface ExclusiveOptions {
  /** Who the name belongs to: a tenant, a customer. Without it, the name belongs to the whole namespace. */
  readonly scope?: string | undefined;
  /** How long to wait for the lock; 0 means not to wait. */
  readonly waitMs?: number | undefined;
  /**
   * How long the lock holds unless it is renewed, in milliseconds. After a crash, others wait this long.
   * @default the guard's `leaseMs`
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long the lock may be held, in milliseconds. Then `lock.signal` fires, and the lock is no longer
   * renewed.
   * @default the guard's `maxRunMs`
   */
  readonly maxRunMs?: number | undefined;
  /**
   * How long a call waits for the store, in milliseconds. Then it fails with `unavailable`.
   * @default the guard's `storeTimeoutMs`
   */
  readonly storeTimeoutMs?: number | undefined;
  /** Ends the caller's wait. It never ends the work, which holds the lock until it ends. */
  readonly signal?: AbortSignal | undefined;
}

/** The engine checks `scope` and `signal`, as in every request. */
const EXCLUSIVE_CHECKS = {
  scope: () => {},
  waitMs: POLICY_CHECKS.waitMs,
  leaseMs: POLICY_CHECKS.leaseMs,
  maxRunMs: POLICY_CHECKS.maxRunMs,
  storeTimeoutMs: POLICY_CHECKS.storeTimeoutMs,
  signal: () => {},
};

/** How the work ended, and whether it held the lock all the time. The value does not pass through the encoding of outcomes. */
interface Section<T> {
  readonly end: { readonly value: T } | { readonly thrown: unknown };
  readonly wasAlone: boolean;
}

/**
 * Runs `work` while it holds the lock of this name, and returns or throws what the work does. Throws `pending` if the lock
 * was not free within `waitMs`, `unavailable` if the store does not answer, and `lease-lost` if the lock was lost before
 * the work ended: then the work may not have run alone.
 */
export async function exclusive<T>(
  engine: Pick<Engine, "tryRun">,
  name: string | Key,
  work: (lock: Lock) => T | PromiseLike<T>,
  options: ExclusiveOptions = {},
): Promise<T> {
  const text = nameText(name);
  isFunction("the work", work);
  checkOptions(options, EXCLUSIVE_CHECKS);
  let section: Section<T> | undefined;
  let result: RunResult<never>;
  try {
    result = await engine.tryRun(requestFor(text, options), async (attempt) => {
      section = await hold(text, attempt, work);
      // The claim is released and not completed, also after a loss: the work has ended, and the next holder may begin.
      throw attempt.notDone(section);
    });
  } catch (error) {
    if (section === undefined || error !== section) throw error;
    return sectionResult(text, section);
  }
  throw refusal(text, result);
}

/** A lock sets these policies itself: with other policies of the guard it would not be a lock. */
function requestFor(key: string, options: ExclusiveOptions): RunRequest {
  return {
    ...options,
    ...LOCK,
    key,
    onPending: "wait",
    onCompleted: "reject",
    onLapsed: "takeover",
    onUnavailable: "refuse",
  };
}

async function hold<T>(
  name: string,
  attempt: Attempt,
  work: (lock: Lock) => T | PromiseLike<T>,
): Promise<Section<T>> {
  let isOver = false;
  const owned = () => !isOver && isHeld(attempt);
  const lock: Lock = {
    name,
    fence: attempt.fence,
    get signal() {
      return attempt.signal;
    },
    owned,
    extend: () =>
      attempt.renew().then(
        (isRenewed) => isRenewed && owned(),
        (cause) => Promise.reject(unanswered(name, cause)),
      ),
  };
  let end: Section<T>["end"];
  try {
    end = { value: await work(lock) };
  } catch (thrown) {
    end = { thrown };
  }
  isOver = true;
  // The store decides: it may have ended the lease, or forgotten it, without this process knowing. If it does not answer,
  // the clock of this process says that the lease has not ended.
  const wasAlone = await attempt.renew().catch(() => true);
  return { end, wasAlone };
}

/** `deriveKey` throws as soon as the claim is lost, so it shows whether the lock is held. */
function isHeld(attempt: Attempt): boolean {
  try {
    attempt.deriveKey("owned");
    return true;
  } catch {
    return false;
  }
}

function sectionResult<T>(name: string, { end, wasAlone }: Section<T>): T {
  if (!wasAlone) {
    throw new NevertwiceError(
      "lease-lost",
      `the lock ${JSON.stringify(name)} was lost before its work ended, so the work may not have run alone.`,
      "thrown" in end ? { cause: end.thrown } : {},
    );
  }
  if ("thrown" in end) throw end.thrown;
  return end.value;
}

/** A store that refuses for good is not away: its own error says what to do. */
function unanswered(name: string, cause: unknown): unknown {
  if (isRefusal(cause)) return cause;
  return new NevertwiceError(
    "unavailable",
    `the store did not say whether the lock ${JSON.stringify(name)} is still held; try again.`,
    { cause },
  );
}

function refusal(name: string, result: RunResult<never>): NevertwiceError {
  // A completed record is freed by reopen, since forget leaves a marker. A held one is not completed, so forget frees it.
  const subject = errorSubjectFor(result);
  const wayOut = result.status === "unknown" ? "forget" : "reopen";
  switch (result.status) {
    case "pending":
      return new NevertwiceError(
        "pending",
        `the lock ${JSON.stringify(name)} is held by another process and was not free in time; try again later.${itselfHint(result)}`,
        { ...subject, leaseLeftMs: result.leaseLeftMs },
      );
    case "unavailable":
      return result.error;
    default:
      return new NevertwiceError(
        "conflict",
        `the record of the lock ${JSON.stringify(name)} was not written by a lock; ${wayOut} { operation: "${LOCK.operation}", scope, key } to free it.`,
        subject,
      );
  }
}

function nameText(name: string | Key): string {
  const text = keyText(name);
  if (text === undefined || text === null || text === "")
    throw new NevertwiceError(
      "key-missing",
      "the lock has no name: give a name for the work that may run only once at a time.",
    );
  return checkedPart(text, "the lock's name", "key-invalid");
}
