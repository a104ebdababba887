/** Tests the comparison of the variables with their table, on pages that differ from the code. */
import { expect, test } from "vitest";
import { environmentProblems } from "../docs/environment.js";

const variables = {
  NEVERTWICE_LEASE: { default: "30s", what: "How long does a claim hold?" },
  NEVERTWICE_ENABLED: { default: "true", what: "Is anything guarded?" },
};
const page = `
## Environment

| variable | default | what it answers to |
| --- | --- | --- |
| \`NEVERTWICE_LEASE\` | \`30s\` | How long does a claim hold? Longer than any pause. |
| \`NEVERTWICE_ENABLED\` | \`true\` | Is anything guarded? |

| option | default |
| --- | --- |
| \`migrate\` | \`true\` |

## Another section

| \`NEVERTWICE_OTHER\` | \`1\` | x |
`;

test("passes when the page says what the code does", () => {
  expect(environmentProblems(page, variables)).toEqual([]);
});

test.each([
  ["another default", page.replace("`30s`", "`60s`"), "the default of NEVERTWICE_LEASE is `30s`, not `60s`"],
  ["another question", page.replace("Is anything", "Is nothing"), "NEVERTWICE_ENABLED does not begin with"],
  ["a variable left out", page.replace(/^.*ENABLED.*\n/m, ""), "no row for NEVERTWICE_ENABLED"],
  [
    "a variable made up",
    page.replace("| `NEVERTWICE_LEASE`", "| `NEVERTWICE_HOPE` | `1` | x |\n| `NEVERTWICE_LEASE`"),
    "row for NEVERTWICE_HOPE, which does not exist",
  ],
  ["the section left out", page.replace("## Environment", "## Weather"), 'no section "Environment"'],
])("fails on %s", (_, markdown, problem) => {
  expect(environmentProblems(markdown, variables)).toEqual([expect.stringContaining(problem)]);
});
