/** The record of one key, as far as its history tells, and how time and answers change what is known about it. */
import type { KeyOperation } from "./history.ts";

/** How far the clock of the store may be from the monotonic clock of the machine. */
export interface ClockBounds {
  /** How much earlier than requested a lease or a retention may end. */
  readonly earlyMs: number;
  /** How much later it may end. Infinity if only what callers have seen decides, as on etcd. */
  readonly lateMs: number;
  /** After a clock went back, the fence of a new record may be lower than that of a record that is gone. */
  readonly goesBack?: boolean;
}

/** Both clocks run at one speed up to this share. */
const DRIFT = 0.001;

/** From when on a time limit may be over, and when it certainly is. In microseconds of the monotonic clock. */
interface EndSpan {
  readonly from: number;
  readonly by: number;
}

/** The record of a key, as far as its history tells. */
export interface KeyState {
  readonly state: "absent" | "pending" | "completed" | "released";
  readonly token: string;
  /** The token gave its claim up. */
  readonly spent: boolean;
  /** Undefined until an answer shows it: the claim that got it was never answered. */
  readonly fence: number | undefined;
  /** No fence of an earlier attempt is higher. */
  readonly above: number;
  readonly number: number;
  readonly hold: boolean;
  readonly tookOver: boolean;
  readonly fingerprint: string | undefined;
  readonly outcome: string | undefined;
  readonly retentionMs: number;
  readonly leaseEnd: EndSpan;
  readonly keptUntil: EndSpan;
}

const NEVER: EndSpan = { from: Number.POSITIVE_INFINITY, by: Number.POSITIVE_INFINITY };

export const ABSENT: KeyState = {
  state: "absent",
  token: "",
  spent: false,
  fence: undefined,
  above: 0,
  number: 0,
  hold: false,
  tookOver: false,
  fingerprint: undefined,
  outcome: undefined,
  retentionMs: 0,
  leaseEnd: NEVER,
  keptUntil: NEVER,
};

/** What the marker says that replaces the outcome of a completed record that was forgotten. */
export const FORGOTTEN = "forgotten";

/** The text of a state, equal for states that no later call can tell apart. */
export function stateText(record: KeyState): string {
  const { state, token, spent, fence, above, number, hold, tookOver, fingerprint, outcome } = record;
  const { retentionMs, leaseEnd, keptUntil } = record;
  const fences = fence === undefined ? `>${above}` : `${fence}`;
  if (state === "absent") return fences;
  const kept = `${token} ${spent} ${fences} ${number} ${hold} ${keptUntil.from} ${keptUntil.by} ${fingerprint}`;
  if (state === "completed") return `${kept} completed ${outcome}`;
  if (state === "released") return `${kept} released`;
  const lease = spent ? "" : `${leaseEnd.from} ${leaseEnd.by}`;
  return `${kept} ${tookOver} ${retentionMs} ${lease}`;
}

/** How a state reads in a report. */
export function describeState({ state, token, fence, number, hold, spent, outcome }: KeyState): string {
  if (state === "absent") return "absent";
  const more = [spent && "given up", hold && "held", outcome !== undefined && `outcome ${outcome}`];
  return [
    `${state} by ${token} with fence ${fence ?? "unknown"} and number ${number}`,
    ...more.filter(Boolean),
  ].join(", ");
}

/** What is left of a record that has expired or was removed: the next fence must be higher. */
export function gone({ fence, above }: KeyState, { goesBack = false }: ClockBounds): KeyState {
  return { ...ABSENT, above: goesBack ? 0 : (fence ?? above + 1) };
}

export function withLease(
  record: KeyState,
  leaseMs: number,
  operation: KeyOperation,
  bounds: ClockBounds,
): KeyState {
  const keptUntil = endSpan(operation, leaseMs + record.retentionMs, bounds);
  return { ...record, leaseEnd: endSpan(operation, leaseMs, bounds), keptUntil };
}

/** When a time that began with this operation may end. */
export function endSpan(
  { sentAt, answeredAt }: KeyOperation,
  ms: number,
  { earlyMs, lateMs }: ClockBounds,
): EndSpan {
  return {
    from: sentAt + (ms * (1 - DRIFT) - earlyMs) * 1_000,
    by: answeredAt + (ms * (1 + DRIFT) + lateMs) * 1_000,
  };
}

/** The record, now known to have this fence; undefined if it has another one. */
export function withFence(record: KeyState, fence: number): KeyState | undefined {
  if (record.fence !== undefined) return record.fence === fence ? record : undefined;
  return fence > record.above ? { ...record, fence } : undefined;
}

export function isOutcome({ outcome }: KeyState, seen: string | undefined): boolean {
  return outcome === FORGOTTEN ? seen?.includes(FORGOTTEN) === true : outcome === seen;
}
