/** The ways in which a rule goes wrong: what the broken stores are made of. Each takes the right rule and bends it. */
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  forgetRecord,
  isExpired,
  type Kept,
  renewRecord,
  type Step,
} from "../../src/core/record.ts";
import type {
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  Parts,
  Store,
  StoreRecord,
} from "../../src/core/store.ts";
import { RULES, type Rules } from "./rule-store.ts";

/** A store broken by one rule. */
export interface Fault {
  /** What the store does, as its author would have to own up to. */
  readonly fault: string;
  /** The wrong rules, made anew for each store so that they may remember. */
  readonly rules?: WrongRules;
  readonly wrap?: (store: Store) => Store;
  /** The names of the cases that catch it: these, and no others. */
  readonly caught: readonly string[];
}

export type WrongRules = () => Partial<Rules>;
type Decision = ReturnType<Rules["claim"]>;

/** Judges a claim by something else than the record that was found. */
export function judging(
  see: (found: Kept, request: ClaimRequest, now: number) => Kept | undefined,
): WrongRules {
  return () => ({
    claim: (found, request, now, nextFence) =>
      claimRecord(found && see(found, request, now), request, now, nextFence),
  });
}

/** Turns the right decision about a claim into another one. */
export function deciding(
  change: (decision: Decision, found: Kept | undefined, request: ClaimRequest, now: number) => Decision,
): WrongRules {
  return () => ({
    claim: (found, request, now, nextFence) =>
      change(claimRecord(found, request, now, nextFence), found, request, now),
  });
}

interface Claimed {
  readonly found: Kept | undefined;
  readonly request: ClaimRequest;
  readonly answer: ClaimAnswer;
  readonly now: number;
}

/** Answers a claim rightly, and writes something else. */
export function writing(change: (write: Kept, claimed: Claimed) => Kept): WrongRules {
  return deciding(({ answer, write }, found, request, now) =>
    write === undefined ? { answer } : { answer, write: change(write, { found, request, answer, now }) },
  );
}

export function completing(change: (write: Kept, now: number) => Kept): WrongRules {
  return () => ({
    complete: (found, request, now) =>
      rewritten(completeRecord(found, request, now), (write) => change(write, now)),
  });
}

/** Writes, when a token completes again. */
export function completingAgain(
  change: (found: Kept, request: CompleteRequest, now: number) => Kept,
): WrongRules {
  return () => ({
    complete: (found, request, now) => {
      const step = completeRecord(found, request, now);
      if (!step.answer || found?.state !== "completed") return step;
      return { answer: true, write: change(found, request, now) };
    },
  });
}

export function renewing(change: (write: Kept, found: Kept, now: number) => Kept): WrongRules {
  return () => ({
    renew: (found, token, leaseMs, now) =>
      rewritten(renewRecord(found, token, leaseMs, now), (write) => change(write, found ?? write, now)),
  });
}

export function abandoning(change: (write: Kept, now: number) => Kept): WrongRules {
  return () => ({
    abandon: (found, token, as, now) =>
      rewritten(abandonRecord(found, token, as, now), (write) => change(write, now)),
  });
}

export function forgetting(change: (marker: Kept, found: Kept, now: number) => Kept): WrongRules {
  return () => ({
    forget: (found, request, now) =>
      rewritten(forgetRecord(found, request, now), (write) =>
        write.state === "completed" ? change(write, found ?? write, now) : write,
      ),
  });
}

/** Shows something else than what is kept. */
export function reading(change: (shown: StoreRecord, record: Kept, now: number) => StoreRecord): WrongRules {
  return () => ({
    read: (record, now) => {
      const shown = RULES.read(record, now);
      return shown && change(shown, record, now);
    },
  });
}

/** Removes, in one step, what `goes` says. */
export function purging(goes: (record: Kept, now: number) => boolean): Rules["purge"] {
  return async (records, limit, now) => {
    const going = [...records].filter(([, record]) => goes(record, now)).slice(0, limit);
    for (const [key] of going) records.delete(key);
    return { removed: going.length, more: going.length === limit };
  };
}

/** Keeps records under something made of their parts, which only a claim knows. */
export function byParts(text: (parts: Parts) => string): Rules["keyOf"] {
  const keys = new Map<string, string>();
  return (id, parts) => {
    if (parts !== undefined) keys.set(id, text(parts));
    return keys.get(id) ?? id;
  };
}

function rewritten(step: Step, change: (write: Kept) => Kept): Step {
  return step.write === undefined ? step : { ...step, write: change(step.write) };
}

export function answering(answer: ClaimAnswer): Decision {
  return { answer };
}

export function isNew(answer: ClaimAnswer): answer is ClaimAnswer & { status: "new" } {
  return answer.status === "new";
}

export function living(found: Kept | undefined, now: number): found is Kept {
  return found !== undefined && !isExpired(found, now);
}

/** The record as if its time did not pass. */
export function undying<K extends Kept | undefined>(found: K, now: number): K {
  if (found === undefined || !isExpired(found, now)) return found;
  return { ...found, keptUntil: Number.POSITIVE_INFINITY };
}

/** A pause in which everything else that was asked at once is done. */
export function soon(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
