/** Tests the comparison of applications under load and its pages, on made-up results. */
import { existsSync } from "node:fs";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { gatewayPage, gatewayText } from "../../bench/gateway/document.js";
import { compareLoads } from "../../bench/http/comparison.js";
import { httpPage, layerSpotsText, layersText } from "../../bench/http/document.js";
import { bodyOf, freshKeys } from "../../bench/http/load.js";
import { makeOperations } from "../../bench/payload.js";
import { api, ours as gateway, plain } from "../../bench/suites/gateway.js";
import { bare, http, ours } from "../../bench/suites/http.js";

const measurement = { versionOf: () => "9.9.9", platform: "Node 20" };
const perSecond = { median: 10_000, least: 9_000, most: 11_000 };
const fast = {
  side: bare,
  phase: /** @type {const} */ ("first"),
  perSecond,
  ratio: 1,
  latency: { p50: 1.234, p99: 5, aloneP50: 0.1, aloneP99: 0.2 },
  processorMicroseconds: 50,
  explanation: undefined,
};
const slow = {
  ...fast,
  side: ours,
  phase: /** @type {const} */ ("replay"),
  ratio: 0.5,
  latency: { p50: 1.734, p99: 4, aloneP50: 0.11, aloneP99: 0.2 },
  processorMicroseconds: 100,
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

  it("explains the rows below their target, and only those", () => {
    expect(layerSpotsText([fast])).toBe("");
    const text = layerSpotsText([fast, slow]);
    expect(text).toContain("**replay**: 0.50x of the bare application. Its main thread waits for 25.0 %");
    expect(text).toMatch(/\| decode \(a\.js:1\) \| 12\.5 % \| 12\.50 \|/);
  });

  it("has the target of each table, and the rows that miss it", () => {
    const text = httpPage(
      http.tables.map(() => [fast, slow]),
      measurement,
    );
    expect(text).toContain("Target: 0.85x of bare, and more than any peer; missed by: replay.");
    expect(text).toContain("Target: 0.60x of bare; missed by: replay.");
    expect(text).toContain("Target: 0.50x (first) and 0.75x (replay) of bare; missed by: replay.");
    expect(text).toContain("- **bare**: nothing in front of the handler.");
    expect(text).toContain("- **steadykey 9.9.9, redis 9.9.9**:");
    expect(text).toContain("fastify 9.9.9");
    expect(text.match(/^### /gm)).toHaveLength(http.tables.length);
  });
});

describe("the page of the gateway", () => {
  const rows = [
    { ...fast, side: plain },
    { ...slow, side: gateway },
    { ...fast, side: api },
  ];

  it("compares the gateway with the plain proxy, and the API with nothing", () => {
    const lines = gatewayText(rows).split("\n").slice(2);
    expect(
      lines.map((line) =>
        line
          .split("|")
          .slice(1, 4)
          .map((cell) => cell.trim()),
      ),
    ).toEqual([
      ["plain proxy", "10,000 (9,000 to 11,000)", "1.00x"],
      ["gateway, replay", "10,000 (9,000 to 11,000)", "0.50x"],
      ["HTTP API, claims", "10,000 (9,000 to 11,000)", ""],
    ]);
  });

  it("has the target, and the rows that miss it", () => {
    const text = gatewayPage([rows], measurement);
    expect(text).toContain("Target: 0.60x of the plain proxy; missed by: gateway, replay.");
    expect(text).toContain("**gateway, replay**: 0.50x of the plain proxy.");
  });
});

describe("a comparison under load", () => {
  beforeEach(() => void vi.spyOn(console, "error").mockReturnValue());

  const profile = { nodes: [], samples: [], timeDeltas: [] };
  const at = (/** @type {number} */ rate) => ({ perSecond: rate, p50: 1, p99: 2, processorMicroseconds: 3 });
  /**
   * The ratios of the rows that miss the target, where ours has these rates.
   *
   * @param {number} first
   * @param {number} replay
   * @param {import("../../bench/report.js").Meant} ratioMeant
   */
  async function missedBy(first, replay, ratioMeant = 0.6) {
    const rates = { base: { first: at(100) }, ours: { first: at(first), replay: at(replay) } };
    const all = { ...rates, peer: { first: at(70), replay: at(20) }, other: { first: at(900) } };
    const sides = {
      base: "base",
      ours: "ours",
      peers: ["peer"],
      others: ["other"],
      ratioMeant,
      runs: 3,
    };
    const rows = await compareLoads(sides, async (side, profiled) => {
      const run = all[/** @type {keyof typeof all} */ (side)];
      return profiled === undefined ? run : { [profiled]: { ...at(1), profiles: [profile] } };
    });
    return rows
      .filter(({ explanation }) => explanation !== undefined)
      .map(({ phase, ratio }) => [phase, ratio]);
  }

  it("asks for the ratio to the base", async () => {
    expect(await missedBy(80, 59)).toEqual([["replay", 0.59]]);
    expect(await missedBy(80, 60)).toEqual([]);
    expect(await missedBy(80, 40, { first: 0.9, replay: 0.3 })).toEqual([["first", 0.8]]);
  });

  it("asks for more than any peer in the same phase, and does not compare with the others", async () => {
    expect(await missedBy(69, 60)).toEqual([["first", 0.69]]);
    expect(await missedBy(71, 60)).toEqual([]);
  });
});

describe("the HTTP suite of the benchmark", () => {
  it.each([...new Set([bare, ours, ...http.tables.flatMap(({ peers }) => peers)])])(
    "knows how to run $name",
    ({ file }) => {
      expect(existsSync(new URL(`../../bench/libraries/${file}.js`, import.meta.url))).toBe(true);
    },
  );

  it.each(http.tables)("measures $title five times, over 64 connections", ({ size }) => {
    expect(size).toMatchObject({ runs: 5, connections: 64 });
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
