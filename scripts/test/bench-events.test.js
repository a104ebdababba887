/** Tests the page of the consumers, on made-up results. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { deliveriesText, eventsPage } from "../../bench/events/document.js";
import { events } from "../../bench/suites/events.js";

const [memory] = events.tables;
if (memory === undefined) throw new Error("nothing is measured");
const rows = [
  {
    title: "delivered for the first time",
    ours: { median: 9_000, least: 8_000, most: 10_000 },
    bare: { median: 20_000, least: 19_000, most: 21_000 },
    ratio: 0.45,
  },
];

describe("the page of messages", () => {
  it("has both consumers and their ratio", () => {
    const [header, , row] = deliveriesText(memory, rows).split("\n");
    expect(header?.replaceAll(/ +/g, " ")).toBe("| deliveries per second | nevertwice | no guard | ratio |");
    expect(row?.replaceAll(/ +/g, " ")).toBe(
      "| delivered for the first time | 9,000 (8,000 to 10,000) | 20,000 (19,000 to 21,000) | 0.45x |",
    );
  });

  it("has a table for each store, and says how it was measured and with which versions", () => {
    const text = eventsPage(
      events.tables.map(() => rows),
      { versionOf: () => "9.9.9", platform: "Node 20" },
    );
    expect(text.match(/^## .*/gm)).toEqual(["## In memory", "## On Redis", "## How it was measured"]);
    expect(text).toContain("Node 20. 64 deliveries in flight, 200 bytes each; 20,000 messages a run");
    expect(text).toContain(
      "- **On Redis, nevertwice** (nevertwice 9.9.9, @nats-io/jetstream 9.9.9, ioredis 9.9.9):",
    );
    expect(text).toContain("- **no guard** (@nats-io/jetstream 9.9.9): does the work of every delivery");
  });
});

describe("the suite of messages", () => {
  const bench = new URL("../../bench/", import.meta.url);

  it.each(events.tables)("knows how to run $store, five times, 64 in flight", (table) => {
    for (const file of [
      `libraries/${table.ours.file}`,
      `libraries/${events.bare.file}`,
      `databases/${table.store}`,
    ])
      expect(existsSync(new URL(`${file}.js`, bench))).toBe(true);
    expect(table.size).toMatchObject({ runs: 5, inFlight: 64 });
  });
});
