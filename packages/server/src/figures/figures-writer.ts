/**
 * Writes what this server counted: at most every 10 seconds, and nothing if nothing was counted. Each server has its own row
 * for each minute, so servers never wait for each other. While the store does not answer, counts stay in memory.
 */
import type { Claimed, Guard } from "nevertwice";
import {
  DAY_MS,
  LANE_RETENTION_MS,
  LANES,
  laneSubject,
  MAX_LINES,
  MINUTE_MS,
  minuteSubject,
} from "./figures-row.ts";
import { createTally, type OperationTally, type TallyLine } from "./tally.ts";

export interface FiguresWriter {
  count(line: TallyLine): void;
  /** Writes what was counted since the last call. Never rejects. */
  flush(): Promise<void>;
  /** Writes the rest and completes the row. */
  end(): Promise<void>;
}

/** A row that this server holds. */
interface OpenRow {
  readonly minute: number;
  readonly claim: Claimed<readonly TallyLine[]>;
  /** All of the minute. The completion repeats what single steps may have lost. */
  readonly total: OperationTally;
  steps: number;
}

export function createFiguresWriter(
  guard: Guard,
  { now = Date.now, lane = Math.floor(Math.random() * LANES) }: { now?: () => number; lane?: number } = {},
): FiguresWriter {
  let counted = createTally(MAX_LINES);
  let row: OpenRow | undefined;
  let ownLane = lane;
  let markedDay: number | undefined;
  let writing = Promise.resolve();

  /** Another server may use the lane. Then this one takes the next free lane, and stays there. */
  async function open(minute: number): Promise<OpenRow | undefined> {
    for (let tries = 0; tries < LANES; tries++) {
      const claim = await guard.claim<readonly TallyLine[]>(minuteSubject(minute, ownLane));
      if (claim.status === "claimed") return { minute, claim, total: createTally(MAX_LINES), steps: 0 };
      if (claim.status === "unavailable") return undefined;
      ownLane = (ownLane + 1) % LANES;
      markedDay = undefined;
    }
    return undefined;
  }

  async function markLane(minute: number): Promise<void> {
    const day = Math.floor((minute * MINUTE_MS) / DAY_MS);
    if (markedDay === day) return;
    const { status } = await guard.tryRun(
      { ...laneSubject(day, ownLane), retentionMs: LANE_RETENTION_MS },
      () => minute,
    );
    if (status === "ran" || status === "already-done") markedDay = day;
  }

  async function complete(): Promise<void> {
    const ended = row;
    row = undefined;
    await ended?.claim.complete(ended.total.lines());
  }

  async function write(): Promise<void> {
    const minute = Math.floor(now() / MINUTE_MS);
    if (row !== undefined && row.minute !== minute) await complete();
    const lines = counted.lines();
    if (lines.length === 0) return;
    row ??= await open(minute);
    if (row === undefined) return;
    counted = createTally(MAX_LINES);
    for (const line of lines) row.total.add(line);
    await markLane(minute);
    await row.claim.step(`${row.steps++}`, () => lines);
  }

  /** One at a time. A failure costs at most one part of the minute, which the completion writes again. */
  function inTurn(work: () => Promise<void>): Promise<void> {
    writing = writing.then(work).catch(() => {});
    return writing;
  }

  return {
    count: (line) => counted.add(line),
    flush: () => inTurn(write),
    async end() {
      await inTurn(write);
      await inTurn(complete);
    },
  };
}
