/** Tests the page of the HTTP layers, on made-up results. */
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { httpPage, layerSpotsText, layersText } from "../../bench/http/document.js";
import { bodyOf, freshKeys } from "../../bench/http/load.js";
import { makeOperations } from "../../bench/payload.js";
import { bare, http, layersOf, ours } from "../../bench/suites/http.js";

const [table] = http.tables;
if (table === undefined) throw new Error("nothing is measured");
const perSecond = { median: 10_000, least: 9_000, most: 11_000 };
const fast = {
  layer: bare,
  phase: /** @type {const} */ ("first"),
  perSecond,
  ratio: 1,
  added: { p50: 1.234, p99: 5, aloneP50: 0.1, aloneP99: 0.2 },
  processorMicroseconds: 50,
  isAsFastAsMeant: true,
  explanation: undefined,
};
const slow = {
  ...fast,
  layer: ours,
  phase: /** @type {const} */ ("replay"),
  ratio: 0.5,
  added: { p50: 0.5, p99: -1, aloneP50: 0.01, aloneP99: 0 },
  processorMicroseconds: 100,
  isAsFastAsMeant: false,
  explanation: { waiting: 0.25, hotSpots: [{ place: "decode (a.js:1)", share: 0.125 }] },
};

describe("the page of what a layer costs", () => {
  it("has the bare application's whole latencies, and what a layer adds to them", () => {
    const [, , first, second] = layersText([fast, slow]).split("\n");
    expect(first?.replaceAll(/ +/g, " ")).toBe(
      "| bare | 10,000 (9,000 to 11,000) | 1.00x | 1.23 | 5.00 | 0.10 | 0.20 | 50.0 |",
    );
    expect(second?.replaceAll(/ +/g, " ")).toBe(
      "| nevertwice, replay | 10,000 (9,000 to 11,000) | 0.50x | +0.50 | -1.00 | +0.01 | +0.00 | 100.0 |",
    );
  });

  it("explains the rows that are not as fast as meant, and only those", () => {
    expect(layerSpotsText(table, [fast])).toBe("");
    const text = layerSpotsText(table, [fast, slow]);
    expect(text).toContain("**replay**: 0.50x of the bare application where 0.85x");
    expect(text).toContain("waits for 25.0 % of the time");
    expect(text).toMatch(/\| decode \(a\.js:1\) \| 12\.5 % \| 12\.50 \|/);
  });

  it("says beside each table what is meant, and by which rows it is not reached", () => {
    const text = httpPage(
      http.tables.map(() => [fast, slow]),
      { versionOf: () => "9.9.9", platform: "Node 20" },
    );
    expect(text).toContain("Meant is 0.85x of bare, and more than any peer; not reached by: replay.");
    expect(text).toContain("Meant is 0.60x of bare; not reached by: replay.");
    expect(text).toContain("- **steadykey 9.9.9, redis 9.9.9**:");
    expect(text).toContain("fastify 9.9.9");
    expect(text.match(/^### /gm)).toHaveLength(http.tables.length);
  });
});

describe("the HTTP suite of the benchmark", () => {
  it.each([...new Set(http.tables.flatMap(layersOf))])("knows how to run $name", ({ file }) => {
    expect(existsSync(new URL(`../../bench/libraries/${file}.js`, import.meta.url))).toBe(true);
  });

  it("measures five times, over 64 connections, the bare application first", () => {
    expect(http.size).toMatchObject({ runs: 5, connections: 64 });
    for (const each of http.tables) expect(layersOf(each)[0]).toBe(bare);
  });

  it("sends the requests of the other suites, each under a key of its own", () => {
    const operations = makeOperations(3);
    const keys = freshKeys();
    for (const [n, { key, body }] of operations.entries()) {
      expect(bodyOf(n)).toBe(JSON.stringify(body));
      expect(keys.keyOf(n)).toHaveLength(key.length);
    }
    expect(new Set([keys.keyOf(0), keys.keyOf(1), freshKeys().keyOf(0)]).size).toBe(3);
  });
});
