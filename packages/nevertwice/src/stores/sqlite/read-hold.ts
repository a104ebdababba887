/**
 * Makes many short reads in a row cheaper. A read locks the log and unlocks it again, which takes two system calls, unless
 * another connection of this process holds the same lock: then SQLite only counts. So a connection that is not used for
 * anything else holds that lock for a moment. Each read is still a transaction of its own, and sees the latest commit.
 *
 * While the lock is held, no checkpoint can truncate the log. So it is released as soon as the microtasks that were queued
 * with the first read have run.
 */
import { BEGIN, COMMIT, rollBack, type SqliteDatabase } from "./client.ts";

/** To hold and to release the lock takes as long as locking for two reads. */
const HOLD_AFTER_READS = 2;

export interface ReadHold {
  /** To be called before each read of the other connection. Never throws. */
  beforeRead(): void;
  /** To be called before the database is closed. */
  release(): void;
}

/** `readSql` reads any row of the file. */
export function createReadHold(database: SqliteDatabase, readSql: string): ReadHold {
  const begin = database.prepare(BEGIN);
  const read = database.prepare(readSql);
  const commit = database.prepare(COMMIT);
  let reads = 0;
  let isHeld = false;

  function hold(): void {
    isHeld = true;
    try {
      begin.run();
      read.get();
    } catch {
      // The reads lock the log themselves.
      release();
    }
  }

  function release(): void {
    if (!isHeld) return;
    isHeld = false;
    try {
      commit.run();
    } catch {
      rollBack(database);
    }
  }

  function endReads(): void {
    reads = 0;
    release();
  }

  return {
    beforeRead() {
      if (reads === 0) queueMicrotask(endReads);
      else if (reads === HOLD_AFTER_READS) hold();
      reads++;
    },
    release,
  };
}
