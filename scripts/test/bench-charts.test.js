/** Tests that docs/benchmarks.md and its charts are what the script makes of the present results. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { barChart } from "../../bench/charts/bars.js";
import { readAmongKeys, readCommit, readTable } from "../../bench/charts/figures.js";
import { presentFiles } from "../../bench/charts.js";

const ROOT = new URL("../../", import.meta.url);

describe("the page of benchmarks", () => {
  it.each(Object.entries(presentFiles()))("has %s as the results are", (path, text) => {
    expect(readFileSync(new URL(path, ROOT), "utf8"), "run node bench/charts.js").toBe(text);
  });
});

const PAGE = `# On a store

## \`fast\`: nothing is kept

| operations per second   |               nevertwice |   peer | ratio |
| ----------------------- | -----------------------: | -----: | ----: |
| first call, fingerprint | 46,471 (44,205 to 51,277) |     12 | 1.20x |
| first call, none        |                    1,234 | not measured | 0.90x |

## How it was measured

Commit b68e682. Node.
`;

describe("the figures", () => {
  it("are the medians of the first table below a heading", () => {
    expect(readTable(PAGE, "`fast`")).toEqual({
      "first call, fingerprint": { nevertwice: 46_471, peer: 12, ratio: 1.2 },
      "first call, none": { nevertwice: 1_234, ratio: 0.9 },
    });
  });

  it("are an error where a page has none", () => {
    expect(() => readTable(PAGE, "`slow`")).toThrow("no heading begins with `slow`");
  });

  it("name the commit of their page, if it says one", () => {
    expect(readCommit(PAGE)).toBe("b68e682");
    expect(readCommit("# Lists")).toBeUndefined();
  });

  it("say what a claim takes among few and many keys", () => {
    const line =
      "- **SQLite 3.53.0, WAL**: a claim takes 0.38 ms among 10,000 keys and 0.43 ms among 10,000,000 (median of 2,000): 1.12 times.";
    expect(readAmongKeys(line)).toEqual([
      {
        store: "SQLite",
        what: "a claim",
        few: { keys: "10,000", ms: 0.38 },
        many: { keys: "10,000,000", ms: 0.43 },
        ratio: "1.12",
      },
    ]);
  });
});

it("draws bars that are as long as their values, with colours for light and dark", () => {
  const chart = barChart({
    title: "Calls <a second>",
    description: "More is better.",
    groups: [
      {
        title: "memory",
        bars: [
          { name: "nevertwice", value: 100, label: "100", tone: "ours" },
          { name: "peer", value: 50, label: "50", tone: "peer" },
        ],
      },
    ],
  });
  const widths = [...chart.matchAll(/<rect class="(?:ours|peer)"[^>]* width="(\d+)"/g)].map(([, width]) =>
    Number(width),
  );
  expect(widths).toEqual([420, 210]);
  expect(chart).toContain("prefers-color-scheme: dark");
  expect(chart).toContain("Calls &lt;a second&gt;");
});
