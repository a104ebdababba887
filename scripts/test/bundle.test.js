import { describe, expect, it } from "vitest";
import { withLateImports, withoutIndentation, withRelativePaths } from "../bundle/code.js";
import { lineMap, sameLines } from "../bundle/source-map.js";
import { subpathsOf } from "../bundle.js";

describe("the subpaths of the package", () => {
  it("are all bundled for Node, and those with a file for workerd also without Node's modules", () => {
    expect(
      subpathsOf({
        ".": { require: "./dist/index.cjs", workerd: "./dist/web/index.js", default: "./dist/index.js" },
        "./stores/redis": { require: "./dist/stores/redis.cjs", default: "./dist/stores/redis.js" },
        "./package.json": "./package.json",
      }),
    ).toEqual({ node: ["index", "stores/redis"], web: ["index"] });
  });
});

describe("a source map", () => {
  it("keeps the first place of each line, and neither columns nor the text", () => {
    // Two segments in the first line, none in the second, one in the third.
    const mappings = "IAAI,CAAC;;AACA";
    const text = JSON.stringify({
      version: 3,
      sources: ["a.ts"],
      sourcesContent: ["x"],
      names: ["n"],
      mappings,
    });
    expect(JSON.parse(lineMap(text))).toEqual({
      version: 3,
      sources: ["a.ts"],
      names: [],
      mappings: "AAAA;;AACA",
    });
  });

  it("of a text with the same lines leads from each line to itself", () => {
    expect(sameLines("a\nb\nc", "a.ts")).toEqual({
      version: 3,
      sources: ["a.ts"],
      names: [],
      mappings: "AAAA;AACA;AACA",
    });
  });
});

describe("code that keeps its lines", () => {
  it("loses its indentation, but not that of the texts in it", () => {
    const text = "`x\n\t\ty\n\n\tz`";
    const short = withoutIndentation("f.cjs", `function f() {\n\t\tlet a = ${text};\n\n\treturn a;\n}\n`);
    expect(short).toBe(`function f() {\nlet a = ${text};\n\nreturn a;\n}\n`);
  });
});

describe("a worker that a module starts by its path", () => {
  const worker = /** @type {const} */ (["outbox/sqlite/worker.cjs", "run();"]);
  const started = 'new Worker(new URL("dist:outbox/sqlite/worker.cjs", import.meta.url));';

  it.each([
    ["outbox/sqlite.cjs", "./sqlite/worker.cjs"],
    ["chunks/outbox.cjs", "../outbox/sqlite/worker.cjs"],
    ["index.js", "./outbox/sqlite/worker.cjs"],
  ])("is found from %s", (name, path) => {
    const files = withRelativePaths(new Map([worker, [name, started]]));
    expect(files.get(name)).toBe(`new Worker(new URL("${path}", import.meta.url));`);
  });

  it("is found in CommonJS by a path that bundlers can read", () => {
    const url = 'new URL("dist:outbox/sqlite/worker.cjs", require("url").pathToFileURL(__filename).href)';
    const files = withRelativePaths(new Map([worker, ["chunks/outbox.cjs", `new Worker(${url});`]]));
    expect(files.get("chunks/outbox.cjs")).toBe(
      'new Worker(require("node:path").join(__dirname, "../outbox/sqlite/worker.cjs"));',
    );
  });

  it("fails the build if it was not bundled", () => {
    expect(() => withRelativePaths(new Map([["index.js", started]]))).toThrow(
      "index.js names outbox/sqlite/worker.cjs, which is not in the bundle",
    );
  });
});

describe("an import whose module is named at run time", () => {
  it("is left as it is by webpack, unlike one that names its module", () => {
    expect(withLateImports('await import(e); await import("./a.js");')).toBe(
      'await import(/* webpackIgnore: true */ e); await import("./a.js");',
    );
  });
});
