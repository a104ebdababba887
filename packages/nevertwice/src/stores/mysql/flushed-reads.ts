/**
 * Waits until an outcome that was read is on disk. InnoDB shows a commit to others before it flushes its log:
 *
 *   complete:       UPDATE ── visible ────────────── log written and flushed ── answered
 *   another claim:              └── reads the outcome and replays it ── the server crashes: the outcome is lost
 *
 * InnoDB flushes its log in order, so once a later commit is answered, all earlier ones are on disk. The reader therefore
 * makes a small commit. With `log_bin` and `sync_binlog = 1` a commit becomes visible after its flush, and no commit is
 * needed.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { RecordSnapshot } from "../compare-and-set.ts";
import { touchSql } from "../mysql-sql.ts";
import { isOvertaken, toStoreError } from "./errors.ts";
import type { StatementRunner } from "./statement-runner.ts";

/** What was read of a record, and the server's clock before that read. */
interface OutcomeRead {
  readonly record: Pick<NonNullable<RecordSnapshot["record"]>, "id" | "completedAt"> | undefined;
  readonly now: number;
}

export interface FlushedReads {
  /** Resolves with false if the record is no longer completed and must be read again. */
  waitUntilFlushed(read: OutcomeRead, signal: AbortSignal | undefined): Promise<boolean>;
  /** Notes that a commit of this store was answered that began at this time of the server's clock. */
  markFlushed(startedAt: number): void;
}

/** From the moment a statement reads the clock until its commit is visible: far longer than any statement takes. */
const LONGEST_STATEMENT_MS = 60_000;

export function createFlushedReads(runner: StatementRunner): FlushedReads {
  /** Everything that was visible at this time of the server's clock is on disk. */
  let flushedTo = Number.NEGATIVE_INFINITY;
  let running: Promise<boolean> | undefined;
  let next: Promise<boolean> | undefined;
  /** How many connections there were at that time: a new one may lead to another server. */
  let flushedOn = runner.connections;

  async function flush(id: string, readAt: number, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      const { affectedRows } = await runner.change(touchSql(id), signal);
      if (affectedRows > 0) markFlushed(readAt);
      return affectedRows > 0;
    } catch (error) {
      // Another statement changed the record at the same moment, and nothing was committed here.
      if (isOvertaken(error)) return false;
      throw toStoreError(error);
    }
  }

  function markFlushed(startedAt: number): void {
    flushedTo = Math.max(flushedUntil(startedAt), startedAt);
    flushedOn = runner.connections;
  }

  /** Nothing is known if the server may be another one, or if its clock went back: then a new outcome would look old. */
  function flushedUntil(now: number): number {
    const isKnown = flushedOn === runner.connections && now + LONGEST_STATEMENT_MS >= flushedTo;
    return isKnown ? flushedTo : Number.NEGATIVE_INFINITY;
  }

  /** One commit serves all readers that read before it began. Later readers share the next one. */
  function shared(start: () => Promise<boolean>): Promise<boolean> {
    if (running === undefined) {
      running = start().finally(() => {
        running = undefined;
      });
      return running;
    }
    next ??= running
      .catch(() => false)
      .then(() => {
        next = undefined;
        return shared(start);
      });
    return next;
  }

  return {
    markFlushed,
    async waitUntilFlushed({ record, now }, signal) {
      if (record?.completedAt === undefined) return true;
      if (record.completedAt + LONGEST_STATEMENT_MS < flushedUntil(now)) return true;
      for (;;) {
        let isOwn = false;
        const isFlushed = await shared(() => {
          isOwn = true;
          return flush(record.id, now, signal);
        });
        // A commit for another record, which failed or was not needed, says nothing about this one.
        if (isFlushed || isOwn) return isFlushed;
      }
    },
  };
}

/** How often to read a record that stops being completed each time before its outcome is on disk. */
export const MAX_READS = 5;

export function changedDuringReads(): NevertwiceError {
  return new NevertwiceError("unavailable", `the record changed during each of ${MAX_READS} reads.`);
}
