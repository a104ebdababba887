import { decode, encode } from "@jridgewell/sourcemap-codec";
import { describe, expect, it } from "vitest";
import { withLateImports, withRelativePaths } from "../bundle/code.js";
import { shortened } from "../bundle/declarations.js";
import { oneLineEach } from "../bundle/lines.js";
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
  /** @param {readonly (readonly [code: string, line: number | undefined])[]} lines with the line of source of each */
  const printed = (lines) => ({
    code: lines.map(([text]) => text).join("\n"),
    map: JSON.stringify({
      version: 3,
      sources: ["a.ts"],
      mappings: encode(lines.map(([, line]) => (line === undefined ? [] : [[0, 0, line, 0]]))),
    }),
  });
  const lineNumbers = (/** @type {string} */ map) =>
    decode(JSON.parse(map).mappings).map(([segment]) => segment?.[2]);

  it("has one line for each line of source, with the brackets that close it", () => {
    const { code, map } = printed([
      ["function f(e) {", 4],
      ["\treturn g({", 5],
      ["\t\tkey: e,", 5],
      ['\t\ttype: "a  b"', 5],
      ["\t});", 5],
      ["}", 7],
      ["let r;", 9],
    ]);
    const short = oneLineEach("f.cjs", code, map);
    expect(short.code).toBe('function f(e){\nreturn g({key:e,type:"a  b"});}\nlet r;');
    expect(lineNumbers(short.map)).toEqual([4, 5, 9]);
  });

  it("keeps the spaces and line breaks of templates, and the comment that names the map", () => {
    const { code, map } = printed([
      ["const a = `x", 1],
      ["\t\ty", 1],
      ["", 1],
      ["}` + b(`${", 1],
      ["\tc", 1],
      ["}\t`);", 1],
      ["//# sourceMappingURL=f.cjs.map", undefined],
    ]);
    expect(oneLineEach("f.cjs", code, map).code).toBe(
      ["const a=`x", "\t\ty", "", "}`+b(`$", "{c}\t`);", "//# sourceMappingURL=f.cjs.map"]
        .join("\n")
        .replace("$\n", "$"),
    );
  });

  it("keeps a space where two tokens would become one", () => {
    const { code, map } = printed([
      ["return a + +b - -c / / d/.e + 1 .f + typeof g;", 1],
      ["if (a) b();", 2],
      ["else", 2],
      ["c();", 2],
    ]);
    const short = oneLineEach("f.cjs", `function f() {\n${code}\n}`, shifted(map));
    expect(short.code).toBe("function f(){\nreturn a+ +b- -c/ / d/.e+1 .f+typeof g;\nif(a)b();else c();}");
  });

  /** @param {string} map of code before which a line without a place was written */
  function shifted(map) {
    const { mappings, ...rest } = JSON.parse(map);
    return JSON.stringify({ ...rest, mappings: `;${mappings};` });
  }
});

describe("declarations", () => {
  it("lose the names of their files and half of their indentation", () => {
    expect(
      shortened("//#region src/a.d.ts\ninterface A {\n  /**\n   * Text.\n   */\n  readonly b: string;\n}\n"),
    ).toBe("interface A {\n\t/**\n\t * Text.\n\t */\n\treadonly b: string;\n}\n");
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
