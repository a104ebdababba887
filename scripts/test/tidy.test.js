/** Tests each rule of tidy, on a file that follows it and on one that breaks it. */
import { describe, expect, test } from "vitest";
import { catchProblems } from "../tidy/catches.js";
import { exportsProblems } from "../tidy/exports-map.js";
import { functionNameProblems } from "../tidy/function-names.js";
import { layerProblems } from "../tidy/layers.js";
import { anchorsOf, linkProblems } from "../tidy/links.js";
import { openingProblems } from "../tidy/openings.js";
import { placeProblems } from "../tidy/places.js";
import { proseProblems } from "../tidy/prose.js";
import { sizeProblems } from "../tidy/sizes.js";
import { testPlaceProblems } from "../tidy/test-places.js";
import { titleProblems } from "../tidy/test-titles.js";
import { typeNameProblems } from "../tidy/type-names.js";
import { nameProblems, wordProblems } from "../tidy/words.js";
import { repositoryFiles } from "../tidy.js";

/**
 * @param {string} path under src
 * @param {string} text
 */
function source(path, text) {
  return { path: `packages/nevertwice/src/${path}`, text };
}

/** @param {Record<string, string>} exports */
function manifest(exports) {
  return { path: "packages/nevertwice/package.json", text: JSON.stringify({ exports }) };
}

describe("layers", () => {
  test.each([
    ["core/engine.ts", 'import { x } from "./lease.ts";'],
    ["core/identity.ts", 'import { sha256 } from "#platform";'],
    ["stores/memory.ts", 'import { x } from "../core/record.ts";'],
    ["stores/redis.ts", 'import { x } from "./redis-lua.ts";\nimport { connect } from "node:net";'],
    ["http/express.ts", 'import { handle } from "./handle.ts";'],
    ["env/guard-from-env.ts", 'import { openStore } from "../stores/open.ts";'],
    ["testing/simulation/world.ts", 'import { memoryStore } from "../../stores/memory.ts";'],
    ["index.ts", 'export { createGuard } from "./functions/guard.ts";'],
  ])("allows in %s: %s", (path, text) => {
    expect(layerProblems([source(path, text)])).toEqual([]);
  });

  test.each([
    ["core/engine.ts", 'import { memoryStore } from "../stores/memory.ts";'],
    ["core/engine.ts", 'import type { Guard } from "../functions/guard.ts";'],
    ["core/engine.ts", 'import { readFile } from "node:fs/promises";'],
    ["core/engine.ts", 'import canonicalize from "canonicalize";'],
    ["core/engine.ts", 'const store = await import("../stores/memory.ts");'],
    ["core/engine.ts", 'export type Made = import("../stores/memory.ts").Made;'],
    ["stores/redis.ts", 'import { wrap } from "../functions/wrap.ts";'],
    ["functions/wrap.ts", 'export { memoryStore } from "../stores/memory.ts";'],
    ["http/express.ts", 'import { consumer } from "../events/consumer.ts";'],
    ["env/guard-from-env.ts", 'import { memoryStore } from "../stores/memory.ts";'],
    ["stores/memory.ts", 'import { x } from "../../test/trial.ts";'],
    ["attic/old.ts", "export const old = 1;"],
  ])("refuses in %s: %s", (path, text) => {
    expect(layerProblems([source(path, text)])).toHaveLength(1);
  });

  test("names the file, the line and what is allowed", () => {
    const text = '/** Opens. */\nimport { wrap } from "../functions/wrap.ts";';
    expect(layerProblems([source("stores/redis.ts", text)])).toEqual([
      "packages/nevertwice/src/stores/redis.ts:2: stores imports functions/wrap; it may import itself, core, platform/import-module",
    ]);
  });
});

describe("the exports map", () => {
  const door = source("index.ts", "");
  const store = source("stores/memory.ts", "");

  test("is right when every target has a source and every front door a subpath", () => {
    const map = manifest({
      ".": "./dist/index.js",
      "./stores/memory": "./dist/stores/memory.js",
      "./package.json": "./package.json",
    });
    const parts = [
      source("stores/redis-lua.ts", ""),
      source("stores/batch.ts", ""),
      source("core/engine.ts", ""),
    ];
    expect(exportsProblems([map, door, store, ...parts])).toEqual([]);
  });

  test("is wrong when a target has no source", () => {
    const map = manifest({ ".": "./dist/index.js", "./stores/redis": "./dist/stores/redis.js" });
    expect(exportsProblems([map, door])).toEqual([expect.stringContaining("./stores/redis leads to")]);
  });

  test("is wrong when a target is not built", () => {
    const map = manifest({ ".": "./src/index.ts" });
    expect(exportsProblems([map])).toEqual([expect.stringContaining("outside dist")]);
  });

  test("is wrong when a store, or a folder's front door, is not in it", () => {
    const map = manifest({ ".": "./dist/index.js" });
    expect(exportsProblems([map, door, store, source("testing/index.ts", "")])).toEqual([
      expect.stringContaining("stores/memory.ts is imported by users"),
      expect.stringContaining("testing/index.ts is imported by users"),
    ]);
  });
});

describe("names of files", () => {
  test.each([source("index.ts", ""), source("testing/index.ts", ""), source("core/lease.ts", "")])(
    "allows $path",
    (file) => {
      expect(nameProblems([file])).toEqual([]);
    },
  );

  test.each([
    source("core/utils.ts", ""),
    source("http/types.ts", ""),
    source("testing/cases/index.ts", ""),
    { path: "scripts/helpers.js", text: "" },
    { path: "packages/nevertwice/test/common.test.ts", text: "" },
    { path: "examples/index.js", text: "" },
  ])("refuses $path", (file) => {
    expect(nameProblems([file])).toHaveLength(1);
  });
});

describe("words", () => {
  test.each([
    "const leaseMs = 1;",
    'const text = "ttl, backend and enum are words here";',
    "const throttle = 1; const little = 2;",
    "// if the owner is gone; nobody knows\nconst a = 1;",
    "/**\n * A worked example:\n * ```\n * const a = 1;\n * ```\n */\nconst b = 1;",
    "/**\n * @example\n * const guard = createGuard({ store });\n */\nexport const a = 1;",
  ])("allows %j", (text) => {
    expect(wordProblems([source("core/a.ts", text)])).toEqual([]);
  });

  test.each([
    "const ttl = 1;",
    "const lockTTL = 1;",
    "const MAX_TTL_MS = 1;",
    "function f(cacheKey: string) {}",
    "interface Backend {}",
    "const payloadHash = 1;",
    "// TODO: later\nconst a = 1;",
    "/* FIXME */ const a = 1;",
    "function f() {\n  // XXX\n}",
    "// @ts-nocheck\nconst a: string = 1;",
    "// const old = 1;\nconst a = 1;",
    "function f() {\n  // return old(1);\n}",
    "/*\nif (old) {\n  drop();\n}\n*/\nconst a = 1;",
    "// store.drop(id);\nconst a = 1;",
    "// this.old = value;\nconst a = 1;",
  ])("refuses %j", (text) => {
    expect(wordProblems([source("core/a.ts", text)])).toHaveLength(1);
  });
});

describe("places", () => {
  const slash = "/";

  test.each([
    "import x from '../core/store.ts';",
    "GET /v1/home/page",
    "https://example.com/home/page",
    "the registry of names",
    "./tmp/out",
  ])("allows %j", (text) => {
    expect(placeProblems([{ path: "docs/a.md", text }])).toEqual([]);
  });

  test.each([
    `see ${slash}home/ada/project`,
    `"${slash}Users/ada/project"`,
    `cd ${slash}tmp/scratch`,
    ["C:", "Users", "ada"].join("\\"),
    `see ..${slash}shared/notes.md`,
    `"resolved": "https://registry.${"example"}.org/a.tgz"`,
    `registry ${"="} https://example.org`,
  ])("refuses %j", (text) => {
    expect(placeProblems([{ path: "docs/a.md", text }])).toHaveLength(1);
  });
});

describe("sizes", () => {
  const lines = (/** @type {number} */ count) => "  step();\n".repeat(count);

  test("allows 70 lines of a function, and refuses 71", () => {
    expect(sizeProblems([source("core/a.ts", `function f() {\n${lines(68)}}`)])).toEqual([]);
    expect(sizeProblems([source("core/a.ts", `function f() {\n${lines(69)}}`)])).toEqual([
      expect.stringContaining("f has 71 lines"),
    ]);
    expect(sizeProblems([source("core/a.ts", `const f = () => {\n${lines(69)}};`)])).toHaveLength(1);
    expect(sizeProblems([source("core/a.ts", `const o = { f() {\n${lines(69)}} };`)])).toHaveLength(1);
  });

  test("refuses a file of more than 300 lines, without its comments and blank lines", () => {
    const line = "export const a = 1;\n";
    const comment = "/**\n * What a is.\n */\n";
    expect(sizeProblems([source("core/a.ts", `${comment}\n${line}`.repeat(300))])).toEqual([]);
    expect(sizeProblems([source("core/a.ts", line.repeat(301))])).toEqual([
      expect.stringContaining("301 lines without comments"),
    ]);
    expect(sizeProblems([source("stores/a-sql.ts", line.repeat(301))])).toEqual([]);
  });

  test("does not count the lines of nested functions", () => {
    const inner = (/** @type {string} */ name) => `  function ${name}() {\n${lines(50)}  }\n`;
    expect(sizeProblems([source("core/a.ts", `function create() {\n${inner("a")}${inner("b")}}`)])).toEqual(
      [],
    );
    const long = `function create() {\n${inner("a")}${lines(69)}}`;
    expect(sizeProblems([source("core/a.ts", long)])).toEqual([
      expect.stringContaining("create has 72 lines"),
    ]);
  });
});

describe("openings", () => {
  test.each([
    "/** What a guard tells whoever watches it. */\nexport const a = 1;",
    "/**\n * The reference store.\n */\nexport const a = 1;",
    "// The reference store.\nexport const a = 1;",
  ])("allows a file that begins with %j", (text) => {
    expect(openingProblems([source("core/a.ts", text)])).toEqual([]);
  });

  test.each([
    "export const a = 1;",
    'import "./b.ts";\n/** Too late to say it. */\nexport const a = 1;',
    "/** */\nexport const a = 1;",
    "// a\nexport const a = 1;",
  ])("refuses %j", (text) => {
    expect(openingProblems([source("core/a.ts", text)])).toHaveLength(1);
  });
});

describe("catches", () => {
  const inExample = (/** @type {string} */ text) => catchProblems([{ path: "examples/a.js", text }]);
  const inPage = (/** @type {string} */ text) =>
    catchProblems([{ path: "docs/a.md", text: `# A\n\n\`\`\`ts\n${text}\n\`\`\`\n` }]);

  test.each([
    'try { await guard.run(a, b); } catch (error) { if (!isNevertwiceError(error, "conflict")) throw error; }',
    "try { await guard.run(a, b); } catch (error) { await claim.fail(error); }",
    "await guard.run(a, b).catch((error) => console.error(error));",
    "await guard.run(a, b).then(done, (error) => { throw error; });",
    "await guard.run(a, b).then(() => {});",
  ])("allows %j", (text) => {
    expect([...inExample(text), ...inPage(text)]).toEqual([]);
  });

  test.each([
    "try { await guard.run(a, b); } catch {}",
    "try { await guard.run(a, b); } catch { undo(); }",
    "try { await guard.run(a, b); } catch (error) { undo(); }",
    "await guard.run(a, b).catch(() => failures++);",
    "await guard.run(a, b).then(done, () => undo());",
    'try { await guard.run(a, b); } catch (error) { console.log(isNevertwiceError(error, "conflict")); }',
    "try { await guard.run(a, b); } catch (error) { if (error instanceof Refused) undo(); }",
  ])("refuses %j", (text) => {
    expect(inExample(text)).toHaveLength(1);
    expect(inPage(text)).toEqual([expect.stringMatching(/^docs\/a\.md:4: /)]);
  });
});

describe("links", () => {
  const readme = { path: "README.md", text: "# nevertwice\n\n## The `conflict` code\n" };
  const architecture = { path: "ARCHITECTURE.md", text: "# Architecture\n" };
  const engine = source("core/engine.ts", "");

  /** @param {string} text */
  const withReadme = (text) => linkProblems([{ path: "README.md", text }, architecture, engine]);

  test("reports a missing README or ARCHITECTURE", () => {
    expect(linkProblems([])).toEqual(["README.md is missing", "ARCHITECTURE.md is missing"]);
  });

  test.each([
    "[architecture](ARCHITECTURE.md)",
    "[architecture](./ARCHITECTURE.md#architecture)",
    "[sources](packages/nevertwice/src)",
    "[elsewhere](https://example.com/nowhere.md)",
    "# Here\n[here](#here)",
    "`[no link](nowhere.md)`",
    "```\n[no link](nowhere.md)\n```",
    "`packages/nevertwice/src/core/engine.ts`, `src/core/`, `core/engine`, `core/*.ts`",
    "`nevertwice/stores/memory`, `/v1/claims`, `24h`, `a/b`",
  ])("allows %j", (text) => {
    expect(withReadme(text)).toEqual([]);
  });

  test.each([
    "[nowhere](docs/nowhere.md)",
    "[no section](ARCHITECTURE.md#nowhere)",
    "[no section](#nowhere)",
    "`core/motor.ts`",
    "`packages/nowhere/`",
    "`src/attic`",
    "`docs/nowhere.md`",
  ])("refuses %j", (text) => {
    expect(withReadme(text)).toHaveLength(1);
  });

  test("makes anchors from the visible text of headings", () => {
    expect(anchorsOf(`${readme.text}## One call\n## One call\n\`\`\`\n# no heading\n\`\`\`\n`)).toEqual(
      new Set(["nevertwice", "the-conflict-code", "one-call", "one-call-1"]),
    );
  });
});

test("reads the whole repository, and nothing that is generated or installed", async () => {
  const paths = (await repositoryFiles()).map(({ path }) => path);
  expect(paths).toEqual(
    expect.arrayContaining(["package.json", "scripts/test/tidy.test.js", ".github/workflows/ci.yml"]),
  );
  expect(paths.filter((path) => /(^|\/)(node_modules|build|dist|\.git|\.cache)\//.test(path))).toEqual([]);
});

describe("titles of tests", () => {
  const path = "packages/nevertwice/test/quota.test.ts";
  const title = 'describe("five processes share a quota", () => {});';

  test("may speak of several processes where some are started", () => {
    expect(titleProblems([{ path, text: `startProcess(context, "quota.js");\n${title}` }])).toEqual([]);
    expect(titleProblems([{ path, text: 'test("five guards share a quota", () => {});' }])).toEqual([]);
  });

  test("may not where there is only this one", () => {
    expect(titleProblems([{ path, text: title }])).toEqual([
      `${path}: "five processes share a quota" names several processes, and this file starts none`,
    ]);
  });
});

describe("prose", () => {
  const PLACEHOLDER = ["$", "{name}"].join("");

  test.each([
    source("core/a.ts", "/** Whoever takes over claims again. */\nexport const a = 1;"),
    source("core/a.ts", "// An error for whomever it concerns.\nexport const a = 1;"),
    source(
      "core/a.ts",
      "/**\n * A token that is valid no\n * more, and one that is new.\n */\nexport const a = 1;",
    ),
    source("core/a.ts", 'throw new Error("a store of one\'s own");'),
    source("core/a.ts", `throw new Error(\`${PLACEHOLDER} is none of ours\`);`),
    source("core/a.tsx", "const page = <p>What is so stays so.</p>;"),
    { path: "docs/page.md", text: "# A page\n\nThe key is pending no\nmore; try again.\n" },
    { path: "packages/nevertwice/test/a.test.ts", text: 'test("whoever asks is answered", () => {});' },
  ])("refuses $text in $path", (file) => {
    expect(proseProblems([file])).toHaveLength(1);
  });

  test.each([
    source("core/a.ts", "/** No more than ten keys, and the caller owns each. */\nexport const a = 1;"),
    source("core/a.ts", "export const whoever = 1;"),
    { path: "docs/page.md", text: "# A page\n\n```ts\n// whoever\n```\n" },
    { path: "docs/picture.svg", text: "<text>whoever</text>" },
  ])("allows $text in $path", (file) => {
    expect(proseProblems([file])).toEqual([]);
  });

  test("names the file, the line and what to write instead", () => {
    const file = source("core/a.ts", "export const a = 1;\n// A lease that is held no more.\n");
    expect(proseProblems([file])).toEqual([
      'packages/nevertwice/src/core/a.ts:2: "no more"; write "no longer"',
    ]);
  });
});

describe("names of types", () => {
  test("refuses two files that declare a type of the same name", () => {
    const files = [
      source("core/a.ts", "export interface Answer { readonly a: 1 }"),
      source("http/b.ts", "type Answer = 2;"),
      { path: "packages/server/cli/c.ts", text: "class Answer {}" },
    ];
    expect(typeNameProblems(files)).toEqual([
      expect.stringMatching(/^the type Answer is declared in .*core\/a\.ts, .*http\/b\.ts, .*cli\/c\.ts;/),
    ]);
  });

  test("one file may declare it twice, tests may use it, and a namespace may extend another package's", () => {
    const files = [
      source(
        "core/a.ts",
        "export function f(): Answer;\nexport interface Answer { a: 1 }\ninterface Answer { b: 1 }",
      ),
      source("http/b.ts", "declare global { namespace Express { interface Answer { c: 1 } } }"),
      { path: "packages/nevertwice/test/a.test.ts", text: "interface Answer {}" },
    ];
    expect(typeNameProblems(files)).toEqual([]);
  });
});

describe("names of functions", () => {
  test("refuses more functions that end in Of than are allowed", () => {
    const text =
      "function keyOf() {}\nconst idOf = () => 1;\nconst nameOf = function () {};\nconst proof = () => 1;";
    expect(functionNameProblems([source("core/a.ts", text)], 3)).toEqual([]);
    expect(functionNameProblems([source("core/a.ts", text)], 2)).toEqual([
      expect.stringMatching(/^3 functions have a name that ends in Of; 2 is the limit/),
    ]);
  });
});

describe("places of tests", () => {
  const place = (/** @type {string} */ path, text = 'import "vitest";') =>
    testPlaceProblems([source("core/engine.ts", ""), { path: "scripts/tally.js", text: "" }, { path, text }]);

  test.each([
    "packages/nevertwice/test/core/engine.test.ts",
    "scripts/test/tally.test.js",
    "scripts/tally.js",
  ])("allows a test at %s", (path) => {
    expect(place(path)).toEqual([]);
  });

  test.each([
    "/** Tests the engine with a store that fails. */",
    "/**\n * Tests two engines on one store.\n */",
  ])("allows a test elsewhere that begins with %s", (text) => {
    expect(place("packages/nevertwice/test/core/edges.test.ts", text)).toEqual([]);
  });

  test.each(['import "vitest";', "/** The edges of the engine. */", "/** Tests. */", "// Tests the engine."])(
    "refuses a test elsewhere that begins with %s",
    (text) => {
      expect(place("packages/nevertwice/test/core/edges.test.ts", text)).toHaveLength(1);
    },
  );
});
