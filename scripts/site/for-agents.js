/** Writes `llms.txt` and `llms-full.txt`, which coding agents read first, from the pages of the site. */
import { SITE } from "./addresses.js";
import { summaryOf, titleOf, twinMarkdown } from "./pages.js";

/** @typedef {import("./pages.js").Page} Page */
/** @typedef {import("./sections.js").Section} Section */

const INTRODUCTION = `# nevertwice

> A TypeScript library, and a server, that run an operation once for each key and give every retry the same answer, on the
> database that you already run.

Each page below is Markdown. All guides in one file: ${SITE}llms-full.txt

Rules that keep generated code correct:

- Create one guard for each process and store: \`createGuard({ store, namespace })\`.
- Take \`scope\` from the authenticated caller, and \`key\` from the caller's request. Never make a new key for a retry.
- Pass \`attempt.deriveKey(name)\` as the idempotency key of every call to another system.
- Never react to an error by sending the same work with a new key. \`error.retryable\` says whether the same request may be sent again.
`;

/**
 * @param {readonly Section[]} sections
 * @param {readonly Page[]} pages
 */
export function llmsText(sections, pages) {
  const parts = sections.map(({ text, entries }) => {
    const lines = entries.flatMap(({ page }) => {
      const found = pages.find(({ path }) => path === page);
      if (found === undefined) return [];
      const summary = summaryOf(found.markdown);
      return [`- [${titleOf(found.markdown)}](${SITE}${found.file})${summary === "" ? "" : `: ${summary}`}`];
    });
    return `## ${text}\n\n${lines.join("\n")}\n`;
  });
  return [INTRODUCTION, ...parts].join("\n");
}

/**
 * Every page of the sections but the generated ones, in their order.
 *
 * @param {readonly Section[]} sections
 * @param {readonly Page[]} pages
 */
export function llmsFullText(sections, pages) {
  const shown = sections.flatMap(({ entries }) =>
    entries.flatMap(({ page }) => pages.filter(({ path, isGenerated }) => path === page && !isGenerated)),
  );
  const parts = shown.map((page) => `<!-- ${SITE}${page.file} -->\n\n${twinMarkdown(page, pages).trim()}\n`);
  return [INTRODUCTION, ...parts].join("\n");
}
