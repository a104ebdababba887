/** Tests the table of runtimes that `npm run test:matrix` writes. */
import { expect, test } from "vitest";
import { readTable, tableProblems, withTable } from "../matrix/table.js";

const PAGE = `# Runtimes

| runtime | version | smoke program | tests |
| --- | --- | --- | --- |
| \`node20\` | 20.1.0 | 9 promises | 5 passed, 0 failed |

More.
`;

const NODE = { name: "node20", version: "20.1.0", smoke: "9 promises", tests: "5 passed, 0 failed" };

test("reads the rows that it wrote", () => {
  expect(readTable(PAGE)).toEqual([NODE]);
  expect(withTable(PAGE, [NODE])).toBe(PAGE);
});

test("replaces the rows and nothing else", () => {
  const deno = { name: "deno", version: "2.0.0", smoke: "9 promises", tests: "-" };
  const page = withTable(PAGE, [deno]);
  expect(readTable(page)).toEqual([deno]);
  expect(page).toContain("# Runtimes\n\n|");
  expect(page).toContain("|\n\nMore.\n");
});

test("fills a table without rows", () => {
  const empty = PAGE.replace(/\| `node20`.*\n/, "");
  expect(readTable(empty)).toEqual([]);
  expect(withTable(empty, [NODE])).toBe(PAGE);
});

test("refuses a page without the table", () => {
  expect(() => readTable("# Runtimes\n")).toThrow("no table of runtimes");
});

const DENO = { name: "deno", version: "2.0.0", smoke: "9 promises, 7 store cases", tests: "-" };

test("finds a Node that did not load every subpath", () => {
  const node = { ...NODE, smoke: "9 promises, 7 store cases, 59 subpaths required" };
  const page = withTable(PAGE, [node, DENO]);
  expect(tableProblems(page, 59)).toEqual([]);
  expect(tableProblems(page, 62)).toEqual([expect.stringContaining("node20 did not load the 62 subpaths")]);
});

test("finds rows that are of different states of the program", () => {
  const node = { ...NODE, smoke: "9 promises, 8 store cases, 59 subpaths required" };
  expect(tableProblems(withTable(PAGE, [node, DENO]), 59)).toEqual([
    expect.stringContaining("different numbers of store cases"),
  ]);
});
