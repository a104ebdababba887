/** Tests the page of the pipelines, on made-up results. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { messagesText, pipelinePage } from "../../bench/pipeline/document.js";
import { pipeline } from "../../bench/suites/pipeline.js";

const [memory] = pipeline.tables;
if (memory === undefined) throw new Error("nothing is measured");
const rows = [
  {
    title: "delivered for the first time",
    ours: { median: 9_000, least: 8_000, most: 10_000 },
    bare: { median: 20_000, least: 19_000, most: 21_000 },
    ratio: 0.45,
  },
];

describe("the page of pipelines", () => {
  it("has the network with keys, the one without, and their ratio", () => {
    const [header, , row] = messagesText(memory, rows).split("\n");
    expect(header?.replaceAll(/ +/g, " ")).toBe("| messages per second | with keys | no keys | ratio |");
    expect(row?.replaceAll(/ +/g, " ")).toBe(
      "| delivered for the first time | 9,000 (8,000 to 10,000) | 20,000 (19,000 to 21,000) | 0.45x |",
    );
  });

  it("has a table for each store, and says how it was measured and with which versions", () => {
    const text = pipelinePage(
      pipeline.tables.map(() => rows),
      { versionOf: () => "9.9.9", platform: "Node 20" },
    );
    expect(text.match(/^## .*/gm)).toEqual(["## In memory", "## On Redis", "## How it was measured"]);
    expect(text).toContain("Node 20. 64 messages in flight, 200 bytes each");
    expect(text).toContain("- **On Redis, with keys** (nevertwice 9.9.9, ioredis 9.9.9):");
  });
});

describe("the suite of pipelines", () => {
  const bench = new URL("../../bench/", import.meta.url);

  it.each(pipeline.tables)("knows how to run $store, five times, 64 in flight", (table) => {
    for (const file of [
      `libraries/${table.ours.file}`,
      `libraries/${pipeline.bare.file}`,
      `databases/${table.store}`,
    ])
      expect(existsSync(new URL(`${file}.js`, bench))).toBe(true);
    expect(table.size).toMatchObject({ runs: 5, inFlight: 64 });
  });
});
