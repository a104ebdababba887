/**
 * A sliding window of the changes to a parameter, and the rule that says when another change is flapping. `record` is one
 * atomic step, so that two processes never both make the last allowed change. Times are milliseconds of the window's clock.
 */
import type { Clock } from "./clock.ts";
import { NevertwiceError } from "./errors.ts";

/** When a change counts as flapping. */
export interface WindowRule {
  /** How long a change counts. */
  readonly windowMs: number;
  /** The largest relative difference between two values that count as similar. */
  readonly similarity: number;
  /** How many similar changes the window may contain. */
  readonly maxChanges: number;
}

/** A change that is to be judged and recorded. */
export interface WindowRequest extends WindowRule {
  /** What changes: the name of a setting, for example. */
  readonly parameter: string;
  /** Its new value. Must be finite. */
  readonly value: number;
  /** Unique for this change, and without spaces. The window recognises a repeated request by it. */
  readonly token: string;
}

/** `similar`: how many similar changes were in the window before this one. */
export type WindowAnswer =
  | {
      readonly flapping: false;
      /** How many similar changes were in the window before this one. */
      readonly similar: number;
    }
  /** `leftMs`: how long until enough of them have left the window for such a change to pass. */
  | {
      readonly flapping: true;
      readonly similar: number;
      /** How long until enough of them have left the window for such a change to pass, in milliseconds. */
      readonly leftMs: number;
    };

/** Where recent changes are remembered: in this process, or in Redis for all processes. */
export interface Window {
  /** One atomic step: judges the change, and records it unless it is flapping. Throws `store-full` if there is no room. */
  record(request: WindowRequest): Promise<WindowAnswer>;
  /** Removes the changes of one parameter, or of all. */
  clear(parameter?: string): Promise<void>;
}

/** The most changes of one parameter in a window. Every change looks at all of them. */
export const MOST_CHANGES = 1_000;

interface WindowChange {
  readonly at: number;
  readonly value: number;
}

/** Two zeros are similar; zero and any other value are not. */
function isSimilar(a: number, b: number, similarity: number): boolean {
  return a === b || Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b)) <= similarity;
}

function isOut(at: number, now: number, windowMs: number): boolean {
  return now - at >= windowMs;
}

/** `changes` are those in the window, oldest first. */
function judgeChange(changes: readonly WindowChange[], request: WindowRequest, now: number): WindowAnswer {
  const { value, windowMs, similarity, maxChanges } = request;
  const times = changes.filter((change) => isSimilar(change.value, value, similarity)).map(({ at }) => at);
  const similar = times.length;
  const lastToLeave = times[similar - maxChanges];
  if (lastToLeave === undefined) return { flapping: false, similar };
  return { flapping: true, similar, leftMs: lastToLeave + windowMs - now };
}

export function windowFull(parameter: string, windowMs: number): NevertwiceError {
  return new NevertwiceError(
    "store-full",
    `${JSON.stringify(parameter)} had ${MOST_CHANGES} changes within ${windowMs} ms, which is the most that a window can hold: change it less often, or shorten windowMs.`,
  );
}

/** A window in the memory of this process, for one rule. It has no timer: old changes are removed when a change is recorded. */
export function memoryWindow(clock: Clock, maxParameters: number): Window {
  // In the order of their last change, so that those at the front are the first to have an empty window.
  const windows = new Map<string, readonly WindowChange[]>();
  let latest = Number.NEGATIVE_INFINITY;

  /** Reads the time. If the clock went back, changes in the future are moved to now, or they would count for too long. */
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
