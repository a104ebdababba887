/** Tests that the benchmark runs: every name that it imports from the build exists, and a few keys pass through each of ours. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, it, test } from "vitest";
import { runForked } from "../../bench/forked.js";
import { pipeline } from "../../bench/suites/pipeline.js";
import { reservations } from "../../bench/suites/reservations.js";
import { suites } from "../../bench/suites.js";

const BENCH = new URL("../../bench/", import.meta.url);

const FILES = readdirSync(BENCH, { recursive: true })
  .map((name) => String(name).replaceAll("\\", "/"))
  .filter((name) => name.endsWith(".js") && !name.startsWith("node_modules/"));

/**
 * The paths that a module imports from, and the imported names. The name of a whole module is `*`.
 *
 * @param {string} text
 */
function importsOf(text) {
  return ts
    .createSourceFile("bench.js", text, ts.ScriptTarget.ESNext)
    .statements.filter((node) => ts.isImportDeclaration(node))
    .map(({ moduleSpecifier, importClause }) => {
      const bindings = importClause?.namedBindings;
      const names =
        bindings === undefined
          ? []
          : ts.isNamedImports(bindings)
            ? bindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
            : ["*"];
      return { from: /** @type {ts.StringLiteral} */ (moduleSpecifier).text, names };
    })
    .filter(({ from }) => from.startsWith("."));
}

/** @param {string} file */
function takenBy(file) {
  const url = new URL(file, BENCH);
  return importsOf(readFileSync(url, "utf8")).map(({ from, names }) => ({
    file,
    names,
    module: new URL(from, url),
  }));
}

describe("the modules of the benchmark", () => {
  const taken = FILES.flatMap(takenBy);
  const built = taken.filter(({ module }) => module.pathname.includes("/dist/"));

  it("import files that are there", () => {
    expect(taken.length).toBeGreaterThan(50);
    for (const { file, module } of taken)
      expect(existsSync(module), `${file} imports ${module.pathname}`).toBe(true);
  });

  it.each(built)("$file finds $names in the build", async ({ names, module }) => {
    const exported = Object.keys(await import(module.href));
    // A name that a whole module lacks is undefined, and fails only where it is used.
    expect(names).not.toContain("*");
    expect(exported).toEqual(expect.arrayContaining([...names]));
  });
});

/** The suites that need no server and no other package. */
const PLANS = [
  ...suites
    .filter(({ server }) => server === undefined)
    .flatMap(({ name, ours, raw }) =>
      [ours, ...(raw === undefined ? [] : [raw])].map(({ file }) => ({
        script: "measure.js",
        plan: { library: file, suite: name, hasFingerprint: true, keys: 20, laps: 1 },
      })),
    ),
  ...reservations.tables
    .filter(({ server }) => server === undefined)
    .flatMap(({ store, ours, byHand }) =>
      [ours, byHand].map(({ file }) => ({
        script: "reservations/measure.js",
        plan: { library: file, store, holds: 20 },
      })),
    ),
  ...pipeline.tables
    .filter(({ server }) => server === undefined)
    .flatMap(({ store, ours }) =>
      [ours, pipeline.bare].map(({ file }) => ({
        script: "pipeline/measure.js",
        plan: { library: file, store, messages: 20 },
      })),
    ),
];

test.each(PLANS)("$script runs $plan", { timeout: 60_000 }, async ({ script, plan }) => {
  const run = await runForked(fileURLToPath(new URL(script, BENCH)), { ...plan, warmup: 5, inFlight: 4 });
  expect(run).toBeTypeOf("object");
});
