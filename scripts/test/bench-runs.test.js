/** Tests that the benchmark runs: every name that it imports from the build exists, and a few keys pass through each of ours. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import ts from "typescript";
import { describe, expect, it, test } from "vitest";
import { runForked } from "../../bench/run.js";
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
  const built = taken.filter(
    ({ module }) => module.pathname.includes("/build/") || module.pathname.includes("/dist/"),
  );

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

/** The libraries that need no server and no other package. */
const PLANS = suites.flatMap(({ script, tables, peer, phases: [first] }) =>
  tables
    .filter(({ servers }) => Object.keys(servers).length === 0)
    .flatMap(({ store, ours, peers, raw }) =>
      // The peers of the stores are packages; the others are files of the benchmark.
      [ours, ...(peer === "the best peer" ? [] : peers), ...(raw === undefined ? [] : [raw])].map(
        ({ file, withFingerprint }) => ({
          script,
          plan: {
            library: file,
            store,
            hasFingerprint: withFingerprint !== undefined,
            // A row that misses its target is explained by a profile.
            profile: first?.name,
          },
        }),
      ),
    ),
);

test.each(PLANS)("$script runs $plan", { timeout: 60_000 }, async ({ script, plan }) => {
  const size = { count: 20, laps: 1, warmup: 5, maxWarmUps: 1, inFlight: 4 };
  const { perSecond, costs, profiles } = await runForked(script, { ...plan, ...size, urls: {} });
  expect(Object.keys(perSecond).length).toBeGreaterThan(1);
  expect(Object.keys(costs)).toEqual(Object.keys(perSecond));
  for (const { client } of Object.values(costs)) expect(client).toBeGreaterThan(0);
  expect(profiles?.length).toBeGreaterThan(0);
});
