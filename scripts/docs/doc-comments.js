/**
 * Checks the doc comments that editors and the API reference show: every public name has one, no comment names a file that
 * the package does not ship, what users call first has an example, and a function names the error codes that it throws.
 */
import { readFile } from "node:fs/promises";
import ts from "typescript";
import { ROOT } from "../command.js";
import { examplesOf, exampleProblems as programProblems } from "./examples.js";
import { commentOf, isDocumented, placeOf, publicNames, tagsOf } from "./public-names.js";
import { thrownCodes } from "./thrown-codes.js";

/** @typedef {import("./public-names.js").PublicName} PublicName */

const HOMES = [`${ROOT}packages/nevertwice/src/`, `${ROOT}packages/server/src/`];

/** Methods that users call first. */
const DOOR_METHODS = /^Guard\.(run|tryRun|wrap|exclusive|transaction|claim|claimBatch|seen)$/;

/** Functions that are used with a door, whose example shows them, or that say all in their name and type. */
const NO_DOORS = new Set(
  (
    "isNevertwiceError NevertwiceError actionKey compositeKey eventKey operationKey problemOf isNoAnswer windowsFromEnv " +
    "didYouMean durationMs refusesLocalStores checkVariables jobKey headerKey offsetKey recordKey sentKey mayRetry " +
    "natsHandler messageId messageKey streamPlace publishOnce fieldKey entryKey attribute deduplicationId sendOnce current " +
    "parseKeyHeader openapiFragments idempotencyPolicy problemAnswer retryAdvice profileOptions keptResponse storedResponse " +
    "normalPath attemptOf keyAttributes formKey IdempotencyInterceptor Idempotent callKey readProblem permanent retryAfter " +
    "measureCoverage recordCoverage lintPipeline manifestProblems problemText replay migrationSql reservationsSql " +
    "NevertwiceObject dynamodbTable importDriver runDrizzle runKnex runKysely runPrisma createAccess configOf readConfig " +
    "ConfigError"
  ).split(" "),
);

/** Codes that the analysis finds and that a call cannot meet, with the reason. */
const NOT_THROWN = [
  {
    names:
      /^(eventKey|actionKey|operationKey|jobKey|offsetKey|recordKey|messageKey|streamPlace|entryKey|consumer|cloudEvents|webhook)$/,
    codes: ["key-missing"],
    because: "their keys always have a part",
  },
  {
    names: /^(tryProtect|replay)$/,
    codes: ["already-done", "conflict", "lease-lost", "not-kept", "pending", "unknown"],
    because: "they return these as values",
  },
];

/** A page, a source or a folder of the repository: no user of the package has it. */
const OWN_PATH = /\bdocs\/[\w-]+\.md\b|(?<![\w./-])[\w-]+(?:\/[\w-]+)*\.[cm]?ts\b|`(?:[a-z-]+\/)+`/;

/** The step `comments` of `npm run check`. Needs the build, against which the examples are compiled. */
export async function publicCommentProblems() {
  const api = await readPublicApi();
  const examples = commentExamples(api);
  return [...docCommentProblems(api), ...(await programProblems(examples, { areSmall: true }))];
}

/** Reads the sources behind the exports of both packages. */
async function readPublicApi() {
  const manifest = JSON.parse(await readFile(`${ROOT}packages/nevertwice/package.json`, "utf8"));
  const targets = Object.values(manifest.exports).flatMap((target) =>
    typeof target === "string" ? [] : [target.require],
  );
  const entries = [
    ...targets.map((target) => target.replace(/^\.\/dist\//, HOMES[0]).replace(/\.cjs$/, ".ts")),
    `${HOMES[1]}index.ts`,
  ];
  const config = ts.readConfigFile(`${ROOT}tsconfig.check.json`, ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config.config, include: [] }, ts.sys, ROOT);
  return { program: ts.createProgram(entries, options), entries, homes: HOMES };
}

/** @param {{ program: ts.Program, entries: readonly string[], homes: readonly string[] }} api */
export function docCommentProblems({ program, entries, homes }) {
  const checker = program.getTypeChecker();
  const isOurs = (/** @type {string} */ name) => homes.some((home) => name.startsWith(home));
  const names = publicNames(program, entries, homes);
  return names.flatMap((publicName) => {
    const found = [
      ...commentProblems(publicName),
      ...exampleProblems(publicName),
      ...throwsProblems(publicName, thrownCodes(checker, callable(publicName), isOurs)),
    ];
    const { file, line } = placeOf(publicName);
    return found.map((problem) => `${file.replace(ROOT, "")}:${line}: ${publicName.name} ${problem}`);
  });
}

/** @param {PublicName} publicName */
function commentProblems(publicName) {
  if (!isDocumented(publicName)) return ["has no doc comment"];
  const text = publicName.declarations.map((declaration) => commentOf(declaration)).join("\n");
  const path = OWN_PATH.exec(text)?.[0];
  return path === undefined ? [] : [`names ${path}, which the package does not ship`];
}

/** @param {PublicName} publicName */
function exampleProblems(publicName) {
  const { name, isMember } = publicName;
  const isDoor = isMember ? DOOR_METHODS.test(name) : callable(publicName).length > 0 && !NO_DOORS.has(name);
  if (!isDoor) return [];
  const examples = tagsOf(publicName, "example");
  if (examples.length === 0) return ["has no @example"];
  return examples.every((text) => examplesOf(name, text).length > 0)
    ? []
    : ["has an @example without a ts block that imports nevertwice"];
}

/**
 * @param {PublicName} publicName
 * @param {readonly string[]} codes
 */
function throwsProblems(publicName, codes) {
  const said = tagsOf(publicName, "throws").join(" ");
  const missing = codes.filter(
    (code) =>
      !said.includes(`\`${code}\``) &&
      !NOT_THROWN.some(({ names, codes: others }) => names.test(publicName.name) && others.includes(code)),
  );
  return missing.length === 0
    ? []
    : [`does not say @throws ${missing.map((code) => `\`${code}\``).join(", ")}`];
}

/**
 * The declarations of an exported function or class.
 *
 * @param {PublicName} publicName
 */
function callable({ declarations, isMember }) {
  return isMember
    ? []
    : declarations.filter(
        (node) =>
          ts.isFunctionDeclaration(node) ||
          ts.isClassDeclaration(node) ||
          (ts.isVariableDeclaration(node) &&
            node.initializer !== undefined &&
            ts.isArrowFunction(node.initializer)),
      );
}

/**
 * The examples in the comments, to be compiled and run.
 *
 * @param {{ program: ts.Program, entries: readonly string[], homes: readonly string[] }} api
 */
export function commentExamples({ program, entries, homes }) {
  return publicNames(program, entries, homes).flatMap((publicName) => {
    const { file, line } = placeOf(publicName);
    const page = `${file
      .replace(ROOT, "")
      .replace(/^packages\//, "")
      .replace(/\.ts$/, "")}-${line}`;
    return tagsOf(publicName, "example").flatMap((text, i) => examplesOf(`${page}-${i}`, text));
  });
}
