/** Tests how runs of the capacity benchmark become coefficients, and the file with them. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { capacityTexts, coefficientsModule } from "../../bench/capacity/document.js";
import { coefficientsFrom, lineThrough } from "../../bench/capacity/rounds.js";
import { capacity } from "../../bench/suites/capacity.js";

test("a line goes through points that lie on one", () => {
  const { fixed, perByte } = lineThrough([
    [100, 700],
    [1_000, 2_500],
    [4_000, 8_500],
  ]);
  expect(fixed).toBeCloseTo(500, 6);
  expect(perByte).toBeCloseTo(2, 9);
});

/** @param {{ bytes: number, log?: number, client: number, purge?: import("../../bench/capacity/rounds.js").Purge }} numbers */
function run({ bytes, log, client, purge }) {
  return {
    bytes,
    ...(log !== undefined && { log }),
    first: { client, server: 50 },
    replay: { client: client / 2 },
    ...(purge !== undefined && { purge }),
  };
}

test("coefficients are medians of the runs, lines through the medians of bytes, and the fastest purge", () => {
  const small = [
    run({ bytes: 400, log: 90, client: 10, purge: { perSecond: 5, client: 1 } }),
    run({ bytes: 600, log: 110, client: 30, purge: { perSecond: 7, client: 3, server: 4 } }),
  ];
  const large = [
    run({ bytes: 1_500, log: 1_100, client: 20, purge: { perSecond: 6, client: 2, server: 6 } }),
  ];
  expect(coefficientsFrom([0, 1_000], [small, large])).toEqual({
    bytes: { fixed: 500, perByte: 1 },
    log: { fixed: 100, perByte: 1 },
    first: { client: 20, server: 50 },
    replay: { client: 10 },
    purge: { perSecond: 7, client: 2, server: 5 },
  });
});

test("leaves out what no run measured", () => {
  const found = coefficientsFrom([0, 10], [[run({ bytes: 1, client: 1 })], [run({ bytes: 2, client: 1 })]]);
  expect(Object.keys(found)).toEqual(["bytes", "first", "replay"]);
});

test("a comparison of ids is a table of its own, with the difference", () => {
  const found = coefficientsFrom([0], [[run({ bytes: 1, client: 1 })]]);
  const ids = {
    hashed: { index: 160, log: 9_000, compressedLog: 5_000 },
    ordered: { index: 120, log: 4_500, compressedLog: 3_000 },
  };
  const [, table = ""] = capacityTexts({ ...found, ids });
  expect(table).toMatch(/^\| index on ids +\| +160 \| +120 \| +40 \|$/m);
  expect(table).toMatch(/`wal_compression = off` +\| +9,000 \| +4,500 \| +4,500 \|$/m);
  expect(capacityTexts(found)).toHaveLength(1);
});

test("the file has three digits of each number, its date and its machine", () => {
  const [small, large] = [123.456, 223.456].map((bytes) => [run({ bytes, client: 1 })]);
  const each = coefficientsFrom([0, 10], [small ?? [], large ?? []]);
  const text = coefficientsModule(
    capacity.tables.map(() => each),
    { date: "2026-11-19", platform: "Node 20" },
  );
  expect(text).toContain('MEASURED = {"date":"2026-11-19","on":"Node 20","outcomes":[100,1000,4000]};');
  expect(text).toContain('"postgres":{"bytes":{"fixed":123,"perByte":10},"first":{"client":1,"server":50}');
});

test("docs/scale.md has the measured comparison of ids", () => {
  const [measured, shown] = ["bench/results/capacity.md", "docs/scale.md"].map((path) => {
    const page = readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
    return /^\| bytes, each key [\s\S]*?(?=\n\n)/m.exec(page)?.[0];
  });
  expect(measured).toContain("index on ids");
  expect(shown).toBe(measured);
});
