/**
 * A sliding window of the changes to a parameter, and the rule by which one more of them is flapping. The port is one
 * atomic step: of two processes that come together, one is the last to pass. Times are milliseconds of the window's clock.
 */
import type { Clock } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";

export interface WindowRule {
  /** A change counts from its time on until this much later, when it is out. */
  readonly windowMs: number;
  /** The largest relative difference of two values that count as one. */
  readonly similarity: number;
  /** How many similar changes may be in the window. */
  readonly maxChanges: number;
}

export interface WindowRequest extends WindowRule {
  readonly parameter: string;
  readonly value: number;
  /** Made for this change alone and free of spaces: a request that is repeated, since its reply was lost, is known by it. */
  readonly token: string;
}

/** `similar`: how many changes like this one were in the window before it. */
export type WindowAnswer =
  | { readonly flapping: false; readonly similar: number }
  /** `leftMs`: when enough of them are out for such a change to pass. */
  | { readonly flapping: true; readonly similar: number; readonly leftMs: number };

export interface Window {
  /** One atomic step: judges the change, and records it unless it is flapping. Fails with `store-full` where it has no room. */
  record(request: WindowRequest): Promise<WindowAnswer>;
  /** Forgets the changes of one parameter, or of all. */
  clear(parameter?: string): Promise<void>;
}

/** Of one parameter, in one window: each of them is looked at on every change. */
export const MOST_CHANGES = 1_000;

interface Entry {
  readonly at: number;
  readonly value: number;
}

/** Two zeros are similar; a zero and another value differ by all there is. */
function isSimilar(a: number, b: number, similarity: number): boolean {
  return a === b || Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b)) <= similarity;
}

function isOut(at: number, now: number, windowMs: number): boolean {
  return now - at >= windowMs;
}

/** `entries` are those in the window, oldest first. */
function judgeChange(entries: readonly Entry[], request: WindowRequest, now: number): WindowAnswer {
  const { value, windowMs, similarity, maxChanges } = request;
  const times = entries.filter((entry) => isSimilar(entry.value, value, similarity)).map(({ at }) => at);
  const similar = times.length;
  const lastToLeave = times[similar - maxChanges];
  if (lastToLeave === undefined) return { flapping: false, similar };
  return { flapping: true, similar, leftMs: lastToLeave + windowMs - now };
}

export function windowFull(parameter: string, windowMs: number): NevertwiceError {
  return new NevertwiceError(
    "store-full",
    `${JSON.stringify(parameter)} had ${MOST_CHANGES} changes within ${windowMs} ms, and a window keeps no more: change it less often, or shorten windowMs.`,
  );
}

/** A window of this process alone, for one rule. It keeps no timer: what is out is dropped when something is recorded. */
export function memoryWindow(clock: Clock, maxParameters: number): Window {
  // In the order of their last change, so those at the front are the first to have an empty window.
  const windows = new Map<string, readonly Entry[]>();
  let latest = Number.NEGATIVE_INFINITY;

  /** The time. Where the clock went back, no change may be of a time to come: it would count for longer than its window. */
  function readClock(): number {
    const now = clock.now();
    if (now < latest)
      for (const [parameter, entries] of windows)
        windows.set(
          parameter,
          entries.map(({ at, value }) => ({ at: Math.min(at, now), value })),
        );
    latest = now;
    return now;
  }

  function dropEmpty(now: number, windowMs: number): void {
    for (const [parameter, entries] of windows) {
      const newest = entries.at(-1);
      if (newest !== undefined && !isOut(newest.at, now, windowMs)) return;
      windows.delete(parameter);
    }
  }

  return {
    async record(request) {
      const { parameter, value, windowMs } = request;
      const now = readClock();
      dropEmpty(now, windowMs);
      const found = windows.get(parameter);
      const entries = (found ?? []).filter(({ at }) => !isOut(at, now, windowMs));
      const answer = judgeChange(entries, request, now);
      if (answer.flapping) return answer;
      if (entries.length >= MOST_CHANGES) throw windowFull(parameter, windowMs);
      if (found === undefined && windows.size >= maxParameters)
        throw new NevertwiceError(
          "store-full",
          `${maxParameters} parameters have changes in their windows, so there is no room for ${JSON.stringify(parameter)}: raise maxParameters, or shorten windowMs.`,
        );
      windows.delete(parameter);
      windows.set(parameter, [...entries, { at: now, value }]);
      return answer;
    },
    async clear(parameter) {
      if (parameter === undefined) windows.clear();
      else windows.delete(parameter);
    },
  };
}
