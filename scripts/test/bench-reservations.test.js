/** Tests the page of reservations, on made-up results. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { holdSpotsText, holdsText, reservationsPage } from "../../bench/reservations/document.js";
import { reservations } from "../../bench/suites/reservations.js";

const [memory, sqlite] = reservations.tables;
if (memory === undefined || sqlite === undefined) throw new Error("nothing is measured");
const summary = { median: 20_000, least: 18_000, most: 22_000 };
const fast = {
  title: "hold, all on one pool",
  ours: summary,
  byHand: { median: 1_000, least: 900, most: 1_100 },
  ratio: 20,
  explanations: undefined,
};
const slow = {
  ...fast,
  title: "confirm, all on one pool",
  ratio: 4,
  explanations: [{ waiting: 0.5, hotSpots: [{ place: "decide (a.js:1)", share: 0.4 }] }],
};
const results = { rows: [fast, slow], bytesPerHold: { ours: 1_800.4, byHand: 700 } };

describe("the page of reservations", () => {
  it("has both sides and their ratio, and the bytes where they can be compared", () => {
    const [header, , row] = holdsText(sqlite, results).split("\n");
    expect(header?.replaceAll(/ +/g, " ")).toBe("| actions per second | nevertwice | by hand | ratio |");
    expect(row?.replaceAll(/ +/g, " ")).toBe(
      "| hold, all on one pool | 20,000 (18,000 to 22,000) | 1,000 (900 to 1,100) | 20.00x |",
    );
    expect(holdsText(sqlite, results)).toContain(
      "for each confirmed hold, its two keys included: nevertwice 1,800, by hand 700.",
    );
    expect(holdsText(memory, results)).not.toContain("Bytes");
  });

  it("explains the rows that are not as fast as meant, and only those", () => {
    const text = holdSpotsText(sqlite, results);
    expect(text).not.toContain("hold, all on one pool");
    expect(text).toContain(
      "**confirm, all on one pool**: 4.00x of the one by hand where 10.00x is meant; 50.0 µs an action.",
    );
    expect(text).toContain("| decide (a.js:1) | 40.0 % | 10.00 |");
    expect(holdSpotsText(sqlite, { ...results, rows: [fast] })).toBe("");
  });

  it("says beside each table what is meant, and by which rows it is not reached", () => {
    const text = reservationsPage(
      reservations.tables.map(() => results),
      { versionOf: () => "9.9.9", platform: "Node 20" },
    );
    expect(text).toContain("Nothing outlives the process. Nothing is meant here");
    expect(
      text.match(/Meant is 10\.00x of the one by hand; not reached by: confirm, all on one pool\./g),
    ).toHaveLength(2);
    expect(text).toContain("- **On Postgres, by hand, pg 9.9.9**: a pool of 10 connections");
    expect(text).toContain(
      "- **On Postgres, nevertwice 9.9.9, pg 9.9.9**: `postgresReservations({ client: pool })`",
    );
    expect(text).toContain("## What our time goes into");
  });
});

describe("the suite of reservations", () => {
  const bench = new URL("../../bench/", import.meta.url);

  it.each(reservations.tables)("knows how to run $store, five times, 64 in flight", (table) => {
    for (const file of [
      `libraries/${table.ours.file}`,
      `libraries/${table.byHand.file}`,
      `databases/${table.store}`,
    ])
      expect(existsSync(new URL(`${file}.js`, bench))).toBe(true);
    expect(table.size).toMatchObject({ runs: 5, inFlight: 64 });
  });

  it("asks for ten times the one by hand wherever every commit is flushed", () => {
    expect(reservations.tables.map(({ store, ratioMeant }) => [store, ratioMeant])).toEqual([
      ["memory", undefined],
      ["sqlite", 10],
      ["postgres", 10],
    ]);
  });
});
