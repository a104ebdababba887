/** A page of `docs/` has at most 2,000 words outside its code, so that a reader finds the end of it. References may be longer. */

const MAX_WORDS = 2_000;

/** Lists that readers search and do not read from the beginning. */
const REFERENCES = [
  "docs/cli.md",
  "docs/clients.md",
  "docs/conformance.md",
  "docs/errors.md",
  "docs/options.md",
  "docs/scoreboard.md",
  "docs/server-access.md",
  "docs/server-api.md",
  "docs/track-record.md",
];

/** @param {readonly import("./source.js").File[]} files */
export function pageLengthProblems(files) {
  return files.flatMap(({ path, text }) => {
    if (!/^docs\/[^/]+\.md$/.test(path) || REFERENCES.includes(path)) return [];
    const words = wordsOutsideCode(text);
    return words <= MAX_WORDS
      ? []
      : [`${path}: ${words} words; ${MAX_WORDS} is the limit for a page that is no reference`];
  });
}

/** @param {string} markdown */
function wordsOutsideCode(markdown) {
  const prose = markdown.replace(/^(```|~~~)[\s\S]*?^\1.*$/gm, "");
  return prose.split(/\s+/).filter((word) => /\w/.test(word)).length;
}
