/**
 * `exclusive`: one at a time under a name, across processes. It is a claim like every other, of which nothing is
 * remembered but its fence: the work's end, whatever it is, gives it up. Only the fence is safe: a holder that was
 * paused can wake up after its lease, when somebody else holds the lock, and not know it yet.
 */
import type { Attempt } from "../core/attempt.ts";
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Key, keyText } from "../core/key.ts";
import { checkOptions, isFunction, POLICY_CHECKS } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import type { RunResult } from "../core/result.ts";

/** What every lock's key is for. Operations that begin with `nevertwice:` are ours, so that none of a user's meets it. */
const OPERATION = "nevertwice:exclusive";

/** The lock, as the work that holds it is handed it. */
export interface Lock {
  readonly name: string;
  /** Grows with every holder: hand it to whatever can refuse a lower one. */
  readonly fence: number;
  /** Fires when the lock is lost: stop before the next effect. */
  readonly signal: AbortSignal;
  /** Whether the lease still holds by this process's own clock. Asks nobody; false once the work has ended. */
  owned(): boolean;
  /** Renews the lease now, beside the renewals that are made by themselves. False if the lock is lost; `unavailable` if the store does not answer. */
  extend(): Promise<boolean>;
}

/** Durations are milliseconds; what is not given is as the guard says. */
export interface ExclusiveOptions {
  /** Who the name belongs to: a tenant, a customer. Without it, the name belongs to the whole namespace. */
  readonly scope?: string | undefined;
  /** How long to wait for the lock; 0 does not wait. */
  readonly waitMs?: number | undefined;
  readonly leaseMs?: number | undefined;
  readonly maxRunMs?: number | undefined;
  readonly storeTimeoutMs?: number | undefined;
  /** The caller's own: it ends the wait for an answer, never the work, which holds the lock until it ends. */
  readonly signal?: AbortSignal | undefined;
}

/** `scope` and `signal` are checked where every request's are. */
const EXCLUSIVE_CHECKS = {
  scope: () => {},
  waitMs: POLICY_CHECKS.waitMs,
  leaseMs: POLICY_CHECKS.leaseMs,
  maxRunMs: POLICY_CHECKS.maxRunMs,
  storeTimeoutMs: POLICY_CHECKS.storeTimeoutMs,
  signal: () => {},
};

/** How the work ended, and whether it held the lock all the time. Carries any value past the outcome's codec. */
interface Section<T> {
  readonly end: { readonly value: T } | { readonly thrown: unknown };
  readonly wasAlone: boolean;
}

/**
 * Runs `work` while nobody else runs under this name, and answers or throws as it does. Fails with `pending` if the lock
 * was not free within `waitMs`, `unavailable` if the store cannot say, and `lease-lost` if the lock was lost before the
 * work ended: then it may not have run alone, whatever it did.
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
      // Released and not completed, also after a loss: the work is over, and the next may come.
      throw attempt.notDone(section);
    });
  } catch (error) {
    if (section === undefined || error !== section) throw error;
    return outcomeOf(text, section);
  }
  throw refusal(text, result);
}

/** What a lock needs stands here and not in the guard's policy: one that may not be a lock is none. */
function requestFor(key: string, options: ExclusiveOptions): RunRequest {
  return {
    ...options,
    operation: OPERATION,
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
  // The store has the last word: it may have ended the lease, or forgotten it, without our knowing. Where it does not
  // answer, our own clock says that the lease had not ended.
  const wasAlone = await attempt.renew().catch(() => true);
  return { end, wasAlone };
}

/** An attempt says that its claim is lost, as soon as its time is up, by deriving no more keys. */
function isHeld(attempt: Attempt): boolean {
  try {
    attempt.deriveKey("owned");
    return true;
  } catch {
    return false;
  }
}

function outcomeOf<T>(name: string, { end, wasAlone }: Section<T>): T {
  if (!wasAlone) {
    throw new NevertwiceError(
      "lease-lost",
      `the lock ${JSON.stringify(name)} was lost before its work ended, which so may not have run alone.`,
      "thrown" in end ? { cause: end.thrown } : {},
    );
  }
  if ("thrown" in end) throw end.thrown;
  return end.value;
}

function unanswered(name: string, cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    `the store did not say whether the lock ${JSON.stringify(name)} is still held; ask again.`,
    { cause },
  );
}

function refusal(name: string, result: RunResult<never>): NevertwiceError {
  switch (result.status) {
    case "pending":
      return new NevertwiceError(
        "pending",
        `the lock ${JSON.stringify(name)} is held, and was not free in time; try again later.`,
      );
    case "unavailable":
      return result.error;
    default:
      return new NevertwiceError(
        "conflict",
        `what is recorded for the lock ${JSON.stringify(name)} is no lock; forget { operation: "${OPERATION}", key } to free it.`,
      );
  }
}

function nameText(name: string | Key): string {
  const text = keyText(name);
  if (text === undefined || text === null || text === "")
    throw new NevertwiceError("key-missing", "the lock has no name: name what is to be done one at a time.");
  return checkedPart(text, "the lock's name", "key-invalid");
}
