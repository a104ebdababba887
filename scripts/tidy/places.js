/** Checks that nothing in the repository names a machine, a folder outside the repository, or a package registry. */

/** @type {readonly { pattern: RegExp, reason: string }[]} */
const REFUSED = [
  { pattern: /(?<![\w.~/-])\/(?:home|Users|root|work|tmp)\/\w/, reason: "an absolute path of one machine" },
  { pattern: /\b[A-Z]:\\+Users\b/, reason: "an absolute path of one machine" },
  { pattern: /\.\.\/shared\b/, reason: "a folder outside the repository" },
  {
    pattern: /\bregistry\.[a-z\d-]+\.[a-z]{2,}|^\s*(?:@[\w-]+:)?registry\s*=/m,
    reason: "a package registry",
  },
];

/** @param {readonly import("./source.js").File[]} files */
export function placeProblems(files) {
  return files.flatMap(({ path, text }) =>
    REFUSED.flatMap(({ pattern, reason }) => {
      const match = pattern.exec(text);
      if (match === null) return [];
      const line = text.slice(0, match.index).split("\n").length;
      return [`${path}:${line}: names ${reason} (${match[0].trim()})`];
    }),
  );
}
