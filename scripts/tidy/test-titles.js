/** Checks that a test whose title names several processes starts some. Guards in one process are called guards. */
import { titlesOf } from "../docs/test-titles.js";

const TESTS = /^packages\/[^/]+\/test\/.*\.test\.ts$/;
const SEVERAL = /\b(?:two|three|four|five|six|eight|ten|twenty|many|several) processes\b|\banother process\b/;
const STARTS_SOME = /\b(?:spawn|fork|execFile|startProcess)\(|from "[^"]*\/(?:cli-process|servers)\.ts"/;

/** @param {readonly import("./source.js").File[]} files */
export function titleProblems(files) {
  return files.flatMap(({ path, text }) => {
    if (!TESTS.test(path) || STARTS_SOME.test(text)) return [];
    return titlesOf(text, ["test", "it", "describe"])
      .filter((title) => SEVERAL.test(title))
      .map((title) => `${path}: "${title}" names several processes, and this file starts none`);
  });
}
