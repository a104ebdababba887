/**
 * A reader finds the tests of a file at the same path under `test/`. A test that is about something else than one file
 * opens with a comment that says what it tests: `/** Tests the engine and a store that fails: … *\/`.
 */

/** @typedef {import("./source.js").File} File */

const TEST = /^(packages\/([^/]+)\/test\/|scripts\/test\/)(.+)\.test\.[jt]s$/;
const SAYS_ITS_PLACE = /^\/\*\*\s+(?:\*\s+)?Tests \S+ /;

/** @param {readonly File[]} files */
export function testPlaceProblems(files) {
  const paths = new Set(files.map(({ path }) => path));
  return files.flatMap(({ path, text }) =>
    placeOf(path, text, paths) === "nowhere"
      ? [`${path}:1: mirrors no source, and does not open with "/** Tests …"`]
      : [],
  );
}

/**
 * Whether a file of tests mirrors a source, says what it tests, or neither; undefined for other files.
 *
 * @param {string} path
 * @param {string} text
 * @param {ReadonlySet<string>} paths of the repository
 */
export function placeOf(path, text, paths) {
  const [, , name, inside = ""] = TEST.exec(path) ?? [];
  if (!TEST.test(path)) return undefined;
  if (mirroredBy(name, inside).some((source) => paths.has(source))) return "mirrors";
  return SAYS_ITS_PLACE.test(text) ? "says" : "nowhere";
}

/**
 * The sources that a test at this path would mirror.
 *
 * @param {string | undefined} name of the package; undefined for a script
 * @param {string} inside
 */
function mirroredBy(name, inside) {
  if (name === undefined) return [`scripts/${inside}.js`];
  const home = `packages/${name}/`;
  return [`${home}src/${inside}.ts`, `${home}${inside}.ts`, `${home}${inside}.tsx`];
}
