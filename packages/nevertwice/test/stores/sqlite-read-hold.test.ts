/** Tests the lock that a connection holds for the reads of another one (src/stores/sqlite/read-hold.ts). */
import { describe, expect, test, vi } from "vitest";
import type { SqliteDatabase } from "../../src/stores/sqlite/client.ts";
import { createReadHold } from "../../src/stores/sqlite/read-hold.ts";

/** A connection that records its statements. Those in `failing` throw. */
function recording(failing: readonly string[] = []) {
  const log: string[] = [];
  const execute = (sql: string) => {
    log.push(sql);
    if (failing.includes(sql)) throw new Error(`${sql} failed`);
  };
  const prepare = (sql: string) => ({
    get: () => execute(sql),
    all: () => [],
    run: () => {
      execute(sql);
      return { changes: 0 };
    },
  });
  return { log, database: { exec: execute, prepare } satisfies SqliteDatabase };
}

function readTimes(count: number, beforeRead: () => void): void {
  for (let i = 0; i < count; i++) beforeRead();
}

describe("a hold for reads", () => {
  test("costs one or two reads in a row nothing", async () => {
    const { log, database } = recording();
    const { beforeRead } = createReadHold(database, "READ");
    for (const count of [1, 2, 1]) {
      readTimes(count, beforeRead);
      await Promise.resolve();
    }
    expect(log).toEqual([]);
  });

  test("is one transaction for many reads, and ends when their microtasks have run", async () => {
    const { log, database } = recording();
    const { beforeRead } = createReadHold(database, "READ");
    readTimes(64, beforeRead);
    expect(log).toEqual(["BEGIN", "READ"]);
    await Promise.resolve();
    expect(log).toEqual(["BEGIN", "READ", "COMMIT"]);
    readTimes(3, beforeRead);
    await Promise.resolve();
    expect(log).toHaveLength(6);
  });

  test("is released once, by hand or after the reads", async () => {
    const { log, database } = recording();
    const { beforeRead, release } = createReadHold(database, "READ");
    readTimes(3, beforeRead);
    release();
    await Promise.resolve();
    expect(log).toEqual(["BEGIN", "READ", "COMMIT"]);
  });

  test.each([
    ["BEGIN", ["BEGIN", "COMMIT"]],
    ["READ", ["BEGIN", "READ", "COMMIT"]],
    ["COMMIT", ["BEGIN", "READ", "COMMIT", "ROLLBACK"]],
  ])("that fails at %s leaves no transaction open and disturbs no read", async (failing, expected) => {
    const { log, database } = recording([failing]);
    const { beforeRead } = createReadHold(database, "READ");
    const read = vi.fn(beforeRead);
    readTimes(3, read);
    await Promise.resolve();
    expect(log).toEqual(expected);
    expect(read).toHaveReturnedTimes(3);
  });
});
