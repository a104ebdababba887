/** Tests the comparison of a page of capabilities with the tests, on a page and tests that differ. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { ROOT } from "../command.js";
import { BALDUR, BLOCCS, capabilitiesPageProblems, GRACE, IDEMPO, SKILL } from "../docs/capabilities-page.js";
import { readTestFiles } from "../docs/test-titles.js";

const path = "packages/nevertwice/test/functions/guard-keys.test.ts";
const text = `
test("Baldur: duplicate", () => {});
test("Baldur: duplicate: reject: at once", () => {});
test("Baldur: a key's hash: of its text", () => {});
describe("Baldur: no test", () => {});
test("something else", () => {});
`;
const page = `
| Baldur | here |
| --- | --- |
| another | table |

## What Baldur can do

| capability | here | proven in |
| --- | --- | --- |
| duplicate | refused | [keys](../${path}) |
| duplicate: reject | at once | [keys](../${path}) |
| a key's hash | there | [keys](../${path}) |
| outbox | | not claimed: there are no transactions |
`;
const claimed = `[keys](../${path})`;

/** @param {string} markdown @param {string} [source] @param {number} [capabilities] */
const problemsOf = (markdown, source = text, capabilities = 4) =>
  capabilitiesPageProblems({ ...BALDUR, capabilities }, markdown, [{ path, text: source }]);

describe("a page of capabilities", () => {
  test("passes when every row has its test or its reason", () => {
    expect(problemsOf(page)).toEqual([]);
  });

  test.each([
    [
      "a claim without a test",
      page.replace("not claimed: there are no transactions", claimed),
      `no test in ${path} is called "Baldur: outbox"`,
    ],
    [
      "a claim without a file",
      page.replace("not claimed: there are no transactions", "surely"),
      '"outbox" names neither a test nor why',
    ],
    [
      "no reason",
      page.replace("not claimed: there are no transactions", "not claimed:"),
      '"outbox" names neither a test nor why',
    ],
    [
      "a link to nothing",
      page.replace("not claimed: there are no transactions", "[gone](../gone.test.ts)"),
      '"outbox" names gone.test.ts, which is not a test file',
    ],
    ["a row left out", page.replace(/^\| outbox.*\n/m, ""), "3 capabilities, not 4"],
    [
      "a row twice",
      page.replace("| outbox | | not claimed: there are no transactions |", `| duplicate | | ${claimed} |`),
      "row for duplicate twice",
    ],
    [
      "a row that claims less than is proven",
      page.replace(`| there | ${claimed}`, "| there | not claimed: not yet"),
      `"Baldur: a key's hash" is proven`,
    ],
  ])("fails on %s", (_, markdown, problem) => {
    expect(problemsOf(markdown)).toEqual([expect.stringContaining(problem)]);
  });

  test("fails when a test is renamed, on the row and on the title", () => {
    expect(problemsOf(page, text.replace("a key's hash", "a key's sum"))).toEqual([
      expect.stringContaining(`no test in ${path} is called "Baldur: a key's hash"`),
      expect.stringContaining(`"Baldur: a key's sum: of its text" is not a row`),
    ]);
  });

  test("does not take a title for a row whose name is only its beginning", () => {
    expect(problemsOf(page, text.replace('test("Baldur: duplicate",', 'test("Baldur: duplicated",'))).toEqual(
      [
        expect.stringContaining('is called "Baldur: duplicate"'),
        expect.stringContaining('"Baldur: duplicated" is not a row'),
      ],
    );
  });

  test("fails on two tests of one name, and on a test in a file that the row does not name", () => {
    const twice = `${text}test("Baldur: duplicate: once more", () => {});`;
    expect(problemsOf(page, twice)).toEqual([expect.stringContaining("test for duplicate twice")]);
    const elsewhere = {
      path: "packages/nevertwice/test/other.test.ts",
      text: 'test("Baldur: duplicate", f);',
    };
    expect(
      capabilitiesPageProblems({ ...BALDUR, capabilities: 4 }, page, [{ path, text }, elsewhere]),
    ).toEqual([expect.stringContaining(`the row "duplicate" does not name ${elsewhere.path}`)]);
  });

  test("fails when more than five are not claimed", () => {
    const more = [1, 2, 3, 4, 5].map((number) => `| more ${number} | | not claimed: not yet |\n`).join("");
    expect(problemsOf(page + more, text, 9)).toEqual([expect.stringContaining("6 are not claimed")]);
  });

  test.each([
    [BALDUR, "in-memory"],
    [GRACE, "injectable clock"],
    [BLOCCS, "monotonic clock"],
    [SKILL, "conditional-put key-value"],
    [IDEMPO, "key length limit"],
  ])(
    "is true of this repository on %o, and fails there too when a test is renamed",
    async (listing, name) => {
      const markdown = await readFile(ROOT + listing.page, "utf8");
      const tests = await readTestFiles();
      expect(capabilitiesPageProblems(listing, markdown, tests)).toEqual([]);
      const renamed = tests.map(({ path: at, text: source }) => ({
        path: at,
        text: source.replace(`"${listing.title}${name}`, `"${name}`),
      }));
      expect(capabilitiesPageProblems(listing, markdown, renamed)).toEqual([
        expect.stringContaining(listing.title + name),
      ]);
    },
  );
});
