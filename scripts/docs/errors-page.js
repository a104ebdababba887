/** Checks that docs/errors.md has a row and a section for every code, and that the row equals the code. */
import { codeHeadingsOf, nameDifferences, tableRowsOf } from "./markdown.js";

const PAGE = "docs/errors.md";

/**
 * @param {string} markdown
 * @param {Readonly<Record<string, { readonly status: number, readonly retryable: boolean }>>} codes
 */
export function errorsPageProblems(markdown, codes) {
  const meant = Object.keys(codes);
  const rows = tableRowsOf(markdown).flatMap(([first = "", status = "", retryable = ""]) => {
    const code = /^\[`([^`]+)`\]\(#([^)]+)\)$/.exec(first);
    return code === null ? [] : [{ code: code[1] ?? "", anchor: code[2] ?? "", status, retryable }];
  });
  const untrue = rows.flatMap(({ code, anchor, status, retryable }) => {
    const row = codes[code];
    if (row === undefined) return [];
    const said = `${anchor} ${status} ${retryable}`;
    const done = `${code} ${row.status} ${row.retryable ? "yes" : "no"}`;
    return said === done ? [] : [`${PAGE}: the row of ${code} says "${said}"; the code does "${done}"`];
  });
  return [
    ...nameDifferences(PAGE, "heading", codeHeadingsOf(markdown), meant),
    ...nameDifferences(
      PAGE,
      "table row",
      rows.map(({ code }) => code),
      meant,
    ),
    ...untrue,
  ];
}
