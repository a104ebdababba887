/** Tests the rows that the worker remembers between a claim and its completion (src/stores/sqlite/claimed-rows.ts). */
import { describe, expect, test } from "vitest";
import type { ClaimRequest } from "../../src/core/store.ts";
import { type CallRunner, createCallRunner } from "../../src/stores/sqlite/call-runner.ts";
import { type CallAnswer, type StoreCall, toClaimCall } from "../../src/stores/sqlite/calls.ts";
import type { SqliteDatabase } from "../../src/stores/sqlite/client.ts";
import { COMMIT } from "../../src/stores/sqlite/client.ts";
import { FIND } from "../../src/stores/sqlite-sql.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import {
  claimOf,
  completionOf,
  connections,
  LEASE_MS,
  RETENTION_MS,
  scratchFiles,
} from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connections();

/** The same connection, with `before` called in front of each prepared statement. */
function observed(database: SqliteDatabase, before: (sql: string) => void): SqliteDatabase {
  return {
    exec: (sql) => database.exec(sql),
    prepare(sql) {
      const statement = database.prepare(sql);
      const call =
        (name: "get" | "all" | "run") =>
        (...values: never[]) => {
          before(sql);
          return statement[name](...values) as never;
        };
      return {
        get: call("get"),
        all: call("all"),
        run: call("run"),
        setReturnArrays: (isOn) => statement.setReturnArrays?.(isOn),
        setReadBigInts: (isOn) => statement.setReadBigInts?.(isOn),
      };
    },
  };
}

/** A runner on a connection of its own to a file in WAL mode, as the worker has one. */
function openRunner({ isAlone = true } = {}) {
  const file = fileNamed();
  const database = connect(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 0");
  const clock = manualClock();
  const statements: string[] = [];
  let failing: string | undefined;
  const connection = observed(database, (sql) => {
    statements.push(sql);
    if (sql !== failing) return;
    failing = undefined;
    throw new Error(`${sql} failed`);
  });
  const runner = createCallRunner(connection, { clock, isAlone, waiting: (step) => step() });
  return {
    file,
    database,
    clock,
    one: (call: StoreCall) => only(runner, call),
    runner,
    reads: () => statements.filter((sql) => sql === FIND).length,
    failOnce(sql: string) {
      failing = sql;
    },
  };
}

function only(runner: CallRunner, call: StoreCall): CallAnswer | undefined {
  return runner.run([call]).answers[0];
}

const claim = (key: string, more: Partial<ClaimRequest> = {}) => toClaimCall(claimOf(key, more));
const byOther = (key: string) => claim(key, { token: "other" });
const complete = (key: string): StoreCall => {
  const { id, token, outcome, retentionMs } = completionOf(key);
  return ["complete", id, token, outcome, retentionMs];
};
const isNew = expect.arrayContaining(["new"]);

describe("a row that was claimed", () => {
  test("is not read again by its completion, and its outcome is read from the file", () => {
    const { one, reads } = openRunner();
    expect(one(claim("a"))).toEqual(isNew);
    expect(reads()).toBe(1);
    expect(one(complete("a"))).toBe(true);
    expect(reads()).toBe(1);
    expect(one(byOther("a"))).toEqual(["completed", 0]);
    expect(reads()).toBe(2);
  });

  test("is as it was written: renewed, abandoned, and claimed again", () => {
    const { one, clock, reads } = openRunner();
    const { id, token } = claimOf("a");
    one(claim("a"));
    clock.advance(LEASE_MS - 1);
    expect(one(["renew", id, token, LEASE_MS])).toBe(true);
    clock.advance(LEASE_MS - 1);
    expect(one(byOther("a"))).toEqual(["pending", 1, 2 * (LEASE_MS - 1)]);
    expect(one(["abandon", id, token, "unknown"])).toBe(true);
    expect(one(["renew", id, token, LEASE_MS])).toBe(false);
    expect(one(byOther("a"))).toEqual(isNew);
    expect(one(complete("a"))).toBe(false);
    expect(reads()).toBe(1);
  });

  test("is read again after another connection has written", () => {
    const { one, file } = openRunner();
    one(claim("a"));
    one(claim("b"));
    const beside = connect(file);
    beside.exec("UPDATE nevertwice_records SET token = 'other'");
    expect(one(complete("a"))).toBe(false);
    beside.exec("UPDATE nevertwice_records SET hold = 7");
    expect(one(complete("b"))).toEqual(["failed", expect.objectContaining({ code: "store-unsafe" })]);
  });

  test("is read again if another connection wrote while the message waited for the lock", () => {
    const { runner, file } = openRunner();
    only(runner, claim("a"));
    const beside = connect(file);
    // The read of "b" begins the transaction as a reader, and the file changes before its first write.
    const original = runner.table.find;
    let hasWritten = false;
    Object.assign(runner.table, {
      find(id: string) {
        const found = original(id);
        if (!hasWritten) beside.exec("UPDATE nevertwice_records SET token = 'other'");
        hasWritten = true;
        return found;
      },
    });
    expect(runner.run([claim("b"), complete("a")]).answers).toEqual([isNew, false]);
  });

  test("is forgotten if its transaction fails", () => {
    const { one, failOnce } = openRunner();
    failOnce(COMMIT);
    expect(() => one(claim("a"))).toThrow();
    expect(one(byOther("a"))).toEqual(isNew);
    expect(one(complete("a"))).toBe(false);
  });

  test("is forgotten when its record is purged, or removed by hand", () => {
    const { one, clock, database } = openRunner();
    const rows = () => database.prepare("SELECT token FROM nevertwice_records").all();
    one(claim("a"));
    clock.advance(2 * (LEASE_MS + RETENTION_MS));
    expect(one(["purge", 10])).toEqual(["purged", 1]);
    expect(one(claim("a"))).toEqual(isNew);
    expect(rows()).toMatchObject([{ token: "token of a" }]);
    const { id, token } = claimOf("a");
    one(["abandon", id, token, "unknown"]);
    const [, fence] = one(["read", id]) as [string, { fence: number }];
    expect(one(["forget", id, (fence as { fence: number }).fence, false])).toBe(true);
    expect(one(claim("a", { token: "second" }))).toEqual(isNew);
    expect(rows()).toMatchObject([{ token: "second" }]);
  });

  test("is one of at most a thousand, and the others are read", () => {
    const { runner, reads } = openRunner();
    const keys = Array.from({ length: 1_001 }, (_, i) => `k${i}`);
    runner.run(keys.map((key) => claim(key)));
    const before = reads();
    const { answers } = runner.run(keys.map(complete));
    expect(answers).toEqual(keys.map(() => true));
    expect(reads() - before).toBe(1);
  });

  test("is always read on a connection that the application shares", () => {
    const { one, database } = openRunner({ isAlone: false });
    one(claim("a"));
    database.exec("UPDATE nevertwice_records SET token = 'other'");
    expect(one(complete("a"))).toBe(false);
  });
});
