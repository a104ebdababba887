/** Tests the comparison of the conformance page with the tests, on a page and tests that differ. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { ROOT } from "../command.js";
import { conformancePageProblems, GROUPS } from "../docs/conformance-page.js";
import { readTestFiles } from "../docs/test-titles.js";

const groups = { IK: 4, EV: 2 };
const path = "packages/nevertwice/test/http/keys.test.ts";
const text = `
test("IK-01 runs once", () => {});
it.each([1, 2])("IK-02 replays %d", () => {});
test(\`IK-03 on \${name}\`, { timeout: 1 }, () => {});
test("security rule 1: whose keys", () => {});
describe("IK-04 is no test", () => {});
check("IK-04 neither");
`;
const page = `
| row | what it asks | proof |
| --- | --- | --- |
| IK-01 | once | [keys](../${path}) |
| IK-02 | again | [keys](../${path}) |
| IK-03 | everywhere | [keys](../${path}) |
| IK-04 | in one transaction | not claimed: there are no transactions |
| EV-01 … EV-02 | events | not claimed: there are none |
| security rule 1 | an owner | [keys](../${path}) |

| another | table | x |
`;
/** @param {string} markdown @param {string} [source] */
const problemsOf = (markdown, source = text) =>
  conformancePageProblems(markdown, [{ path, text: source }], groups, 1);

describe("the page of conformance", () => {
  test("passes when every row has its test or its reason", () => {
    expect(problemsOf(page)).toEqual([]);
  });

  test.each([
    ["a row left out", page.replace(/^.*IK-04.*\n/m, ""), "no row for IK-04"],
    ["a group that ends too early", page.replace("EV-01 … EV-02", "EV-01"), "no row for EV-02"],
    [
      "a row twice",
      page.replace("| IK-04 |", "| IK-01 | x | not claimed: y |\n| IK-04 |"),
      "row for IK-01 twice",
    ],
    [
      "a row made up",
      page.replace("| IK-04 |", "| IK-05 | x | not claimed: y |\n| IK-04 |"),
      "row for IK-05, which does not exist",
    ],
    [
      "a claim without a test",
      page.replace("not claimed: there are no transactions", `[keys](../${path})`),
      `no test in ${path} begins with IK-04`,
    ],
    [
      "a claim without a file",
      page.replace(`| once | [keys](../${path})`, "| once | surely"),
      "IK-01 names neither a test nor why",
    ],
    [
      "no reason",
      page.replace("not claimed: there are no transactions", "not claimed:"),
      "IK-04 names neither a test nor why",
    ],
    [
      "a claim for a whole range",
      page.replace("not claimed: there are none", `[keys](../${path})`),
      "EV-01 and more are claimed in one row",
    ],
    [
      "a link to nothing",
      page.replace(`| everywhere | [keys](../${path})`, "| everywhere | [keys](../gone.test.ts)"),
      "IK-03 names gone.test.ts, which is not a test file",
    ],
  ])("fails on %s", (_, markdown, problem) => {
    expect(problemsOf(markdown)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["is renamed", "IK-01 runs once", "runs once", "begins with IK-01"],
    ["is renamed in a table of cases", "IK-02 replays", "replays IK-02", "begins with IK-02"],
    ["is renamed in a loop", "IK-03 on", "on", "begins with IK-03"],
    ["of a rule is renamed", "security rule 1:", "rule 1:", "begins with security rule 1"],
  ])("fails when a test %s", (_, from, to, problem) => {
    expect(problemsOf(page, text.replace(from, to))).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["that the page does not claim", 'test("IK-04 commits", () => {});', "a test is called IK-04"],
    ["that does not exist", 'test("ZZ-01 exists", () => {});', "a test is called ZZ-01"],
    ["beside another", 'test("IK-01, IK-04 both", () => {});', "a test is called IK-04"],
  ])("fails on a test with an id %s", (_, more, problem) => {
    expect(problemsOf(page, text + more)).toEqual([expect.stringContaining(problem)]);
  });

  test("is true of this repository, and fails there too when a test is renamed", async () => {
    const markdown = await readFile(`${ROOT}docs/conformance.md`, "utf8");
    const tests = await readTestFiles();
    expect(conformancePageProblems(markdown, tests)).toEqual([]);
    const renamed = tests.map(({ path: at, text: source }) => ({
      path: at,
      text: at.endsWith("/concurrency.test.ts") ? source.replace('"CC-06 ', '"fencing: ') : source,
    }));
    expect(conformancePageProblems(markdown, renamed)).toEqual([
      expect.stringContaining("begins with CC-06"),
    ]);
    expect(Object.values(GROUPS).reduce((sum, count) => sum + count, 0)).toBe(217);
  });
});
