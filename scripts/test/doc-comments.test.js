/** Tests the check of doc comments, on sources that lack them. */
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { commentExamples, docCommentProblems } from "../docs/doc-comments.js";

const ENTRY = "/src/index.ts";

/** @param {Readonly<Record<string, string>>} files by their path under /src */
function api(files) {
  const texts = new Map(Object.entries(files).map(([name, text]) => [`/src/${name}`, text]));
  const options = {
    noLib: true,
    module: ts.ModuleKind.NodeNext,
    allowImportingTsExtensions: true,
    noEmit: true,
  };
  const host = {
    ...ts.createCompilerHost(options),
    directoryExists: () => true,
    fileExists: (/** @type {string} */ name) => texts.has(name),
    readFile: (/** @type {string} */ name) => texts.get(name),
    getSourceFile: (/** @type {string} */ name) => {
      const text = texts.get(name);
      return text === undefined ? undefined : ts.createSourceFile(name, text, ts.ScriptTarget.ESNext, true);
    },
  };
  return { program: ts.createProgram([ENTRY], options, host), entries: [ENTRY], homes: ["/src/"] };
}

const problems = (/** @type {string} */ text, files = {}) =>
  docCommentProblems(api({ "index.ts": text, ...files }));

describe("public names", () => {
  test("pass with a comment on each name and member", () => {
    const text = `
/** How a thing is made. */
export interface Options {
  /** Its name. */
  readonly name: string;
  /** Where it is. */
  readonly at: {
    /** Pixels from the left. */
    readonly x: number;
  };
}
/** The answer. */
export type Answer =
  /** It is done. */
  | { readonly status: "done" }
  | {
      /** Why not. */
      readonly reason: string;
    }
  | { readonly reason: string };
/** The part of a client that is used here. */
export interface Client {
  send(text: string): void;
}
`;
    expect(problems(text)).toEqual([]);
  });

  test.each([
    ["an exported type", "export type A = string;", "index.ts:1: A has no doc comment"],
    ["a member", "/** A. */\nexport interface A { readonly b: string }", "A.b has no doc comment"],
    [
      "a member of a member",
      "/** A. */\nexport interface A {\n/** B. */\nreadonly b: { readonly c: string } }",
      "A.b.c has no doc comment",
    ],
    [
      "a member of a union",
      '/** A. */\nexport type A = { readonly b: string } | { readonly c: "x" };',
      "A.b has no doc comment",
    ],
    [
      "a member that is inherited from a type that is not exported",
      "interface Base { readonly b: string }\n/** A. */\nexport interface A extends Base {}",
      "A.b has no doc comment",
    ],
    [
      "an option of a function whose type is not exported",
      "interface RunOptions { readonly b: string }\n/** A. */\nexport declare const a: (options: RunOptions) => void;",
      "RunOptions.b has no doc comment",
    ],
    [
      "a method of a class",
      "/** A. */\nexport declare class ConfigError { b(): void }",
      "ConfigError.b has no doc comment",
    ],
    [
      "a page of the repository in a comment",
      "/** See docs/options.md. */\nexport type A = string;",
      "A names docs/options.md, which the package does not ship",
    ],
    [
      "a source in a comment",
      "/** As in core/store.ts. */\nexport type A = string;",
      "A names core/store.ts",
    ],
    ["a folder in a comment", "/** Made by `core/`. */\nexport type A = string;", "A names `core/`"],
  ])("fail with %s", (_, text, problem) => {
    expect(problems(text)).toContainEqual(expect.stringContaining(problem));
  });

  test("are found behind a re-export, and private ones are left alone", () => {
    const other =
      "export class ConfigError {\n  private c = 1;\n  #d = 2;\n  override e() {}\n}\nexport interface Hidden { readonly f: string }";
    expect(problems('export { ConfigError } from "./other.ts";', { "other.ts": other })).toEqual([
      "/src/other.ts:1: ConfigError has no doc comment",
    ]);
  });
});

describe("examples", () => {
  const fence = "```";
  const shown = (/** @type {string} */ code, more = "") =>
    `/**\n * Makes a thing.\n * @example\n * ${fence}ts${more}\n * ${code}\n * ${fence}\n */\nexport declare function create(): void;`;
  const code = 'import { create } from "nevertwice";';

  test("are taken out of the comments, to be compiled and run", () => {
    expect(problems(shown(code))).toEqual([]);
    expect(commentExamples(api({ "index.ts": shown(code) }))).toEqual([
      expect.objectContaining({ language: "ts", code: `${code}\n`, isRun: true }),
    ]);
    expect(commentExamples(api({ "index.ts": shown(code, " server") }))).toEqual([
      expect.objectContaining({ isRun: false }),
    ]);
  });

  test("are missing on a function that users call first", () => {
    expect(problems("/** Makes a thing. */\nexport declare function create(): void;")).toEqual([
      "/src/index.ts:1: create has no @example".replace(":1:", ":2:"),
    ]);
    expect(problems(shown("create();"))).toEqual([
      expect.stringContaining("create has an @example without a ts block that imports nevertwice"),
    ]);
  });
});

describe("thrown codes", () => {
  const source = (/** @type {string} */ tag) => `
declare class NevertwiceError { constructor(code: string, message: string) }
const check = (value: unknown) => {
  if (value === undefined) throw new NevertwiceError("options-invalid", "a value is missing.");
};
/**
 * Reads a key.
 * ${tag}
 */
export function formKey(value: unknown): () => void {
  check(value);
  return () => {
    throw new NevertwiceError("lease-lost", "later.");
  };
}
`;

  test("must be named, those of called functions too, but not those of functions that run later", () => {
    expect(problems(source("@throws `options-invalid`"))).toEqual([]);
    expect(problems(source("Throws."))).toEqual([
      "/src/index.ts:10: formKey does not say @throws `options-invalid`",
    ]);
  });
});
