/**
 * How figures are kept: one record per server and minute, in a namespace of their own. A reader has to find the records
 * without a list, which some stores answer only by scanning everything. So a server writes in one of a few lanes, and marks once a
 * day that the lane is used.
 */
import { createGuard, type Guard, type RecordView, type Store } from "nevertwice";
import { DOORS, type TallyLine } from "./tally.ts";

/** Reserved like that of the server's other records, so no token, list or quota of users sees these. */
export const FIGURES_NAMESPACE = "nevertwice:figures";

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
/** The most servers whose figures are counted. */
export const LANES = 32;
/** One day, the hour that is shown in addition, and time to spare. */
const RETENTION_MS = DAY_MS + 2 * 3_600_000;
export const LANE_RETENTION_MS = 2 * RETENTION_MS;
/** At most this many lines are written in one row; further operations are `other`. */
export const MAX_LINES = 200;

/** Longer than a minute, so that a row is neither renewed often nor taken over while it is written. */
const LEASE_MS = 240_000;

export function createFiguresGuard(store: Store, drainMs: number | undefined): Guard {
  return createGuard({
    store,
    namespace: FIGURES_NAMESPACE,
    retentionMs: RETENTION_MS,
    leaseMs: LEASE_MS,
    onCompleted: "reject",
    onPending: "reject",
    purgeEveryMs: 0,
    drainMs,
  });
}

/** `minute` and `day` count from the epoch. */
export function minuteSubject(minute: number, lane: number) {
  return { operation: "minute", key: `${minute}-${lane}` };
}

/** Its value is the first minute of that day in which the lane was used. */
export function laneSubject(day: number, lane: number) {
  return { operation: "lane", key: `${day}-${lane}` };
}

/** The lines of a row that is completed, or as far as it was written. A damaged row has none. */
export function linesIn(record: RecordView | undefined): readonly TallyLine[] {
  const outcomes =
    record?.outcome === undefined ? (record?.steps ?? []).map(({ outcome }) => outcome) : [record.outcome];
  return outcomes.flatMap((outcome) => {
    const value: unknown = outcome.kind === "value" ? outcome.value : undefined;
    return Array.isArray(value) ? value.filter(isLine) : [];
  });
}

function isLine(value: unknown): value is TallyLine {
  const { namespace, door, operation, counts } = (value ?? {}) as Partial<Record<keyof TallyLine, unknown>>;
  return (
    [namespace, operation].every((text) => typeof text === "string") &&
    DOORS.some((known) => known === door) &&
    Array.isArray(counts) &&
    counts.every((count) => Number.isSafeInteger(count) && count >= 0)
  );
}
