/**
 * Sums the figures of all servers over the last day. Rows that no server writes any more are read once and kept as sums of
 * an hour. Reading goes on in the background, so a caller gets what is known so far and is told whether it is all.
 */
import type { Guard } from "nevertwice";
import { atMost } from "../at-most.ts";
import { DAY_MS, LANES, laneSubject, linesIn, MINUTE_MS, minuteSubject } from "./figures-row.ts";
import { createTally, type OperationTally, type TallyLine } from "./tally.ts";

export interface HourFigures {
  /** When the hour began, in milliseconds since the epoch. */
  readonly at: number;
  readonly lines: readonly TallyLine[];
}

export interface DayFigures {
  /** False while older rows are still being read, or if the store did not answer. */
  readonly isComplete: boolean;
  /** Oldest first: 24 whole hours and the current one. Hours without figures are left out. */
  readonly hours: readonly HourFigures[];
}

export interface FiguresReader {
  /** Waits at most a second. Never rejects. */
  read(): Promise<DayFigures>;
}

const HOUR_MINUTES = 60;
const SHOWN_HOURS = 24;
/** How long the sums of a reading are shown before the next one. */
const FRESH_MS = 5_000;
const WAIT_MS = 1_000;
const CONCURRENCY = 8;
/** A row that is older than this is not written any more, even if it was never completed. */
const SETTLED_MINUTES = 15;
/** The most lines of an hour. */
const MAX_LINES = 2_000;

/** A lane, and the first minute of a day in which it was used. */
interface UsedLane {
  readonly lane: number;
  readonly day: number;
  readonly since: number;
}

export function createFiguresReader(guard: Guard, now: () => number = Date.now): FiguresReader {
  /** By hour: what is settled. */
  const settled = new Map<number, { readonly tally: OperationTally; readonly rows: Set<string> }>();
  let open: ReadonlyMap<number, OperationTally> = new Map();
  let isComplete = false;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;

  async function readLanes(firstDay: number, lastDay: number): Promise<readonly UsedLane[]> {
    const names = [firstDay, lastDay].flatMap((day, index) =>
      index === 1 && day === firstDay ? [] : Array.from({ length: LANES }, (_, lane) => ({ day, lane })),
    );
    const used: UsedLane[] = [];
    await runEach(names, async ({ day, lane }) => {
      const outcome = (await guard.read(laneSubject(day, lane)))?.outcome;
      const since = outcome?.kind === "value" ? outcome.value : undefined;
      if (typeof since === "number") used.push({ day, lane, since });
    });
    return used;
  }

  async function readRow(
    minute: number,
    lane: number,
    isOld: boolean,
    recent: Map<number, OperationTally>,
  ): Promise<void> {
    const hour = Math.floor(minute / HOUR_MINUTES);
    const record = await guard.read(minuteSubject(minute, lane));
    const isSettled = isOld || record?.state === "completed";
    const tally = isSettled ? settledHour(hour).tally : (recent.get(hour) ?? createTally(MAX_LINES));
    if (isSettled) settledHour(hour).rows.add(`${minute}-${lane}`);
    else recent.set(hour, tally);
    for (const line of linesIn(record)) tally.add(line);
  }

  function settledHour(hour: number) {
    const found = settled.get(hour) ?? { tally: createTally(MAX_LINES), rows: new Set<string>() };
    settled.set(hour, found);
    return found;
  }

  async function readAll(): Promise<void> {
    const minute = Math.floor(now() / MINUTE_MS);
    const firstHour = Math.floor(minute / HOUR_MINUTES) - SHOWN_HOURS;
    for (const hour of settled.keys()) if (hour < firstHour) settled.delete(hour);
    const day = (at: number) => Math.floor((at * MINUTE_MS) / DAY_MS);
    const lanes = await readLanes(day(firstHour * HOUR_MINUTES), day(minute));
    const rows = lanes.flatMap(({ lane, day: own, since }) => {
      const last = Math.min(minute, ((own + 1) * DAY_MS) / MINUTE_MS - 1);
      const first = Math.max(since, firstHour * HOUR_MINUTES);
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => ({
        at: last - index,
        lane,
      }));
    });
    const recent = new Map<number, OperationTally>();
    const isKnown = ({ at, lane }: { at: number; lane: number }) =>
      settled.get(Math.floor(at / HOUR_MINUTES))?.rows.has(`${at}-${lane}`) ?? false;
    try {
      await runEach(
        rows.filter((row) => !isKnown(row)),
        ({ at, lane }) => readRow(at, lane, minute - at > SETTLED_MINUTES, recent),
      );
    } finally {
      // Also after an error: a row of the last reading may be settled by now, and must not count twice.
      open = recent;
    }
  }

  async function refresh(): Promise<void> {
    try {
      await readAll();
      isComplete = true;
    } catch {
      isComplete = false;
    }
    readAt = now();
  }

  return {
    async read() {
      if (Math.abs(now() - readAt) >= FRESH_MS)
        reading ??= refresh().finally(() => {
          reading = undefined;
        });
      if (reading !== undefined) await atMost(WAIT_MS, reading);
      const hours = [...new Set([...settled.keys(), ...open.keys()])].sort((a, b) => a - b);
      return {
        isComplete,
        hours: hours.map((hour) => ({
          at: hour * HOUR_MINUTES * MINUTE_MS,
          lines: [...(settled.get(hour)?.tally.lines() ?? []), ...(open.get(hour)?.lines() ?? [])],
        })),
      };
    },
  };
}

/** A few at a time. Rejects with the first error, after the calls that run have ended. */
async function runEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
  });
  const ends = await Promise.allSettled(workers);
  const failed = ends.find((end) => end.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
