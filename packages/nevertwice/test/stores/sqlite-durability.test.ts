/** Tests which faults SQLite survives with which settings, as the doctor reports it. */
import { describe, expect, test } from "vitest";
import { isSafeToShare, judgeDurability, type SqliteSettings } from "../../src/stores/sqlite/durability.ts";

const full: SqliteSettings = {
  version: "3.53.0",
  journalMode: "wal",
  synchronous: 2,
  isInMemory: false,
  isExclusive: false,
  isFlushedToDisk: true,
};

const [OFF, NORMAL, FULL, EXTRA] = [0, 1, 2, 3];

describe("judgeDurability", () => {
  const rows: readonly (readonly [
    title: string,
    facts: Partial<SqliteSettings>,
    crash: string,
    power: string,
  ])[] = [
    ["WAL and FULL", {}, "yes", "yes"],
    ["WAL and EXTRA", { synchronous: EXTRA }, "yes", "yes"],
    ["WAL and NORMAL", { synchronous: NORMAL }, "yes", "no"],
    ["WAL and OFF", { synchronous: OFF }, "yes", "no"],
    ["WAL and FULL whose flushes stay in the drive", { isFlushedToDisk: false }, "yes", "no"],
    ["a deleted journal and FULL", { journalMode: "delete", synchronous: FULL }, "yes", "no"],
    ["a deleted journal and EXTRA", { journalMode: "delete", synchronous: EXTRA }, "yes", "yes"],
    ["a truncated journal and FULL", { journalMode: "truncate" }, "yes", "yes"],
    ["a persistent journal and NORMAL", { journalMode: "persist", synchronous: NORMAL }, "yes", "no"],
    ["a journal in memory", { journalMode: "memory" }, "no", "no"],
    ["a database in memory", { journalMode: "memory", isInMemory: true }, "no", "no"],
  ];
  test.each(rows)("judges %s", (_, facts, crash, power) => {
    const { survives, refused } = judgeDurability({ ...full, ...facts });
    expect(survives["our-crash"].survives).toBe(crash);
    expect(survives["store-crash"].survives).toBe(crash);
    expect(survives["power-loss"].survives).toBe(power);
    expect(survives.failover.survives).toBe("no");
    expect(survives["power-loss"].raise === undefined).toBe(power === "yes");
    expect(refused).toBeUndefined();
  });

  test("refuses a connection without a journal", () => {
    expect(judgeDurability({ ...full, journalMode: "off" }).refused).toContain("journal_mode WAL");
  });

  test("warns about an old version, in which several connections can corrupt the file", () => {
    expect(judgeDurability({ ...full, version: "3.45.1" }).notes).toEqual([
      expect.stringContaining("restored backup"),
      expect.stringContaining("3.51.3"),
    ]);
    expect(judgeDurability({ ...full, version: "3.45.1", isExclusive: true }).notes).toEqual([
      expect.stringContaining("restored backup"),
    ]);
    expect(judgeDurability(full).notes).toEqual([expect.stringContaining("restored backup")]);
    expect(judgeDurability({ ...full, isInMemory: true }).notes).toEqual([]);
  });
});

test.each([
  ["3.51.3", true],
  ["3.51.4", true],
  ["3.53.0", true],
  ["3.100.0", true],
  ["4.0.0", true],
  ["3.51.2", false],
  ["3.51", false],
  ["3.9.9", false],
  ["2.99.9", false],
])("SQLite %s may share a file: %s", (version, isSafe) => {
  expect(isSafeToShare(version)).toBe(isSafe);
});
