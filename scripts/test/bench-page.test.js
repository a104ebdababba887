/** Tests the pages of the suites that compare libraries on a database, on made-up results. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { hotSpotsText, page, tableText } from "../../bench/document.js";
import { librariesOf, suites } from "../../bench/suites.js";

const summary = { median: 50_000, least: 40_000, most: 60_000 };
const fast = {
  title: "replay, none",
  ours: summary,
  peers: [summary, summary],
  raw: undefined,
  costs: [
    { client: 20.04, server: 3, blockedMs: 1.5, alone: { p50: 22.4, p99: 151 } },
    { client: 30, blockedMs: 2 },
    undefined,
  ],
  ratio: 2,
  rawRatio: undefined,
  explanations: undefined,
};
const slow = {
  ...fast,
  title: "first call, none",
  ratio: 1,
  explanations: [
    { waiting: 0.5, hotSpots: [{ place: "claim (a.js:1)", share: 0.25 }] },
    { waiting: 0, hotSpots: [{ place: "flush (b.js:1)", share: 1 }] },
  ],
};
const results = { rows: [fast, slow], bytes: [1_500, 1_600.4, 1_700] };
const measurement = { versionOf: () => "9.9.9", platform: "Node 20" };

/** The results of a suite with three peers, one of which was not measured, and a raw loop. */
const besideRaw = {
  rows: [{ ...slow, peers: [summary, summary, undefined], raw: summary, rawRatio: 0.55 }],
  bytes: [1_500, 1_600, 1_700, 1_800, 1_900],
};

/** @param {string} name */
function suiteNamed(name) {
  const suite = suites.find((each) => each.name === name);
  if (suite === undefined) throw new Error(`there is no suite ${name}`);
  return suite;
}

/**
 * The table of a suite as text, without the padding of its columns.
 *
 * @param {string} name
 * @param {number} index
 * @param {import("../../bench/rounds.js").Results} measured
 */
function tableOf(name, index, measured) {
  const suite = suiteNamed(name);
  const table = suite.tables[index];
  if (table === undefined) throw new Error(`${name} has no such table`);
  return tableText(suite, table, measured).replaceAll(/ +/g, " ");
}

/**
 * @param {string} name
 * @param {import("../../bench/rounds.js").Results} measured
 */
function pageOf(name, measured) {
  const suite = suiteNamed(name);
  return page(
    suite,
    suite.tables.map(() => measured),
    measurement,
  );
}

describe("a table", () => {
  it("has a line for each row and the bytes of each library", () => {
    const text = tableOf("memory", 0, results);
    expect(text).toContain("| replay, none | 50,000 (40,000 to 60,000) |");
    expect(text).toContain("| 2.00x |");
    expect(text).toContain(
      "Bytes of memory for each kept key, its outcome included: nevertwice 1,500, steadykey 1,600, @node-idempotency/core 1,700.",
    );
  });

  it("has the costs of an operation for each library that was measured", () => {
    const text = tableOf("memory", 0, { ...results, rows: [fast] });
    expect(text.split("\n\n")[1]?.split("\n")).toEqual([
      "| medians of the runs | nevertwice | steadykey | @node-idempotency/core |",
      "| ------------------------------------------------- | ---------: | --------: | ---------------------: |",
      "| replay, none: CPU of the client, µs | 20.0 | 30.0 | |",
      "| replay, none: CPU of the server, µs | 3.0 | | |",
      "| replay, none: alone, p50 / p99, µs | 22 / 151 | | |",
      "| replay, none: longest block of the event loop, ms | 1.5 | 2.0 | |",
    ]);
  });

  it("has both ratios where there is a raw loop, and says which library was not measured", () => {
    const [header, , row] = tableOf("redis", 0, besideRaw).split("\n");
    expect(header).toBe(
      "| operations per second | nevertwice | steadykey | @node-idempotency/core | powertools | raw loop | to best peer | to raw loop |",
    );
    expect(row).toMatch(/ not measured \| 50,000 \(40,000 to 60,000\) \| 1.00x \| 0.55x \|$/);
  });

  it.each([
    ["events", "| deliveries per second | nevertwice | no guard | ratio |"],
    ["pipeline", "| messages per second | with keys | no keys | ratio |"],
    ["reservations", "| actions per second | nevertwice | by hand | ratio |"],
  ])("of %s has both sides and their ratio", (name, header) => {
    expect(tableOf(name, 0, results).split("\n")[0]).toBe(header);
  });

  it("has bytes only where the libraries can be compared", () => {
    expect(tableOf("reservations", 0, results)).not.toContain("Bytes");
    expect(tableOf("reservations", 1, results)).toContain(
      "Bytes of the file for each confirmed hold, its two keys included: nevertwice 1,500, by hand 1,600.",
    );
  });
});

describe("the explanations", () => {
  it("are of the rows below their target, and only of those, in microseconds of one operation", () => {
    const text = hotSpotsText(suiteNamed("memory"), results);
    expect(text).not.toContain("replay, none");
    expect(text).toContain("**first call, none**: 1.00x of the best peer; 20.0 µs for each operation.");
    expect(text).toContain("The main thread waits for 50.0 % of the time. The rest goes into:");
    expect(text).toContain("| claim (a.js:1) | 25.0 % | 2.50 |");
    expect(text).toContain("The worker thread waits for 0.0 % of the time. The rest goes into:");
    expect(text).toContain("| flush (b.js:1) | 100.0 % | 20.00 |");
    expect(hotSpotsText(suiteNamed("memory"), { ...results, rows: [fast] })).toBe("");
    expect(hotSpotsText(suiteNamed("redis"), besideRaw)).toContain("0.55x of the raw loop");
  });
});

describe("a page", () => {
  it("says how it was measured, and with which versions", () => {
    const text = pageOf("memory", results);
    expect(text).toContain("Written by `npm run bench -- memory`; do not edit.");
    expect(text).toContain("40,000 first calls and 80,000 replays a run");
    expect(text).toContain("- **steadykey 9.9.9**: `InMemoryIdempotencyStore`");
    expect(text).toContain(" Without: `guard.run({ operation, key }, work)`.");
    expect(text).toContain("## What our time goes into\n\n### Nothing outlives the process\n\n**first call");
  });

  it("says for each table how durable its figures are, and which rows miss the target", () => {
    const text = pageOf("redis", besideRaw);
    expect(text).toContain("\n## `appendonly no`: nothing outlives the server\n");
    expect(text).toContain("\n## `appendonly yes`, `appendfsync always`: every write is flushed");
    expect(text).toMatch(
      /Target: 0\.90x \(first\) and 1\.30x \(replay\) of the best peer and 0\.60x of the raw loop.*; missed by: first call, none\./,
    );
    expect(text.match(/- \*\*raw loop, ioredis 9\.9\.9\*\*: our own scripts/g)).toHaveLength(1);
  });

  it("has a target in each table that has one, and lists libraries of one table with its title", () => {
    const text = pageOf("reservations", results);
    expect(text).toContain("## In memory\n\nNothing outlives the process.\n\n|");
    expect(text.match(/Target: 4\.00x of the code by hand; missed by: first call, none\./g)).toHaveLength(2);
    expect(text).toContain("- **On Postgres, by hand, pg 9.9.9**: a pool of 10 connections");
    expect(text).toContain("- **On Postgres, nevertwice 9.9.9, pg 9.9.9**: `postgresReservations(");
  });

  it("has no explanations if every row reaches its target", () => {
    const text = pageOf("events", { ...results, rows: [fast] });
    expect(text.match(/^## .*/gm)).toEqual(["## In memory", "## On Redis", "## How it was measured"]);
    expect(text).toContain("Node 20. 64 deliveries in flight, 200 bytes each; 20,000 messages a run");
    expect(text).toContain(
      "- **On Redis, nevertwice 9.9.9, @nats-io/jetstream 9.9.9, ioredis 9.9.9**: `redisStore(",
    );
    expect(text).toContain("- **no guard, @nats-io/jetstream 9.9.9**: does the work of every delivery");
  });
});

describe.each(suites)("the suite $name", ({ script, phases, tables }) => {
  const bench = new URL("../../bench/", import.meta.url);

  it.each(tables)("can open $store and run each library, five times, 64 in flight", (table) => {
    const files = librariesOf(table).map(({ file }) => `libraries/${file}.js`);
    for (const file of [script, `databases/${table.store}.js`, ...files])
      expect(existsSync(new URL(file, bench))).toBe(true);
    expect(table.size).toMatchObject({ runs: 5, inFlight: 64 });
    expect((table.phases ?? phases).length).toBeGreaterThan(0);
  });
});
