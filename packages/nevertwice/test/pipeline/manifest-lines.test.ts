/** Tests that the line of a problem is right, however the manifest is laid out. */
import fc from "fast-check";
import { parse, stringify } from "smol-toml";
import { describe, expect, it } from "vitest";
import { tomlLines } from "../../src/pipeline/manifest/toml-lines.ts";

const TEXT = `# a comment with [brackets] and "quotes
title = "a ] } # title"

[contract] # and another
timeout = "5s"
retry = { strategy = "linear", on = ["a,b", 'c]'], base = "1s" }
idempotency.key = [ # the fields
  "tenant",

  "request_id", # the second
]

[doc]
intent = """
[not.a.table]
key = "no key" \\"""
quotes at the end"""""
owner = '''
it's a
literal'''
since = 2024-05-01T10:00:00Z

[[edges]]
from = "a.out"

[[edges]]
"to" = "b.in"
'from' = "a.\\u0062"

[edges.more]
deep = 1

[ports . "in" . 'x.y']
schema = "Order@1"
[nodes]
a = { use = "./a.toml", inner = { x = [{ y = 1 }, { y = 2 }] } }
after = true
`;

describe("the line of a value", () => {
  const lineOf = tomlLines(TEXT);

  it.each([
    [["title"], 2],
    [["contract"], 4],
    [["contract", "timeout"], 5],
    [["contract", "retry", "strategy"], 6],
    [["contract", "retry", "base"], 6],
    [["contract", "idempotency", "key"], 7],
    [["contract", "idempotency", "key", 0], 8],
    [["contract", "idempotency", "key", 1], 10],
    [["doc", "intent"], 14],
    [["doc", "owner"], 18],
    [["doc", "since"], 21],
    [["edges", 0, "from"], 24],
    [["edges", 1], 26],
    [["edges", 1, "to"], 27],
    [["edges", 1, "from"], 28],
    [["edges", 1, "more", "deep"], 31],
    [["ports", "in", "x.y", "schema"], 34],
    [["nodes", "a", "inner", "x", 1, "y"], 36],
    [["nodes", "after"], 37],
  ] as const)("%j is %i", (path, line) => {
    expect(lineOf(path)).toBe(line);
  });

  it("is that of the nearest table around a missing value", () => {
    expect(lineOf(["contract", "effect_shell"])).toBe(4);
    expect(lineOf(["contract", "retry", "max"])).toBe(6);
    expect(lineOf(["edges", 1, "via"])).toBe(26);
  });

  it("is 1 if neither value nor table is there", () => {
    expect(lineOf(["network", "id"])).toBe(1);
    expect(lineOf([])).toBe(1);
    expect(tomlLines("")(["node"])).toBe(1);
  });

  it("is counted with both kinds of line endings", () => {
    const windows = tomlLines(TEXT.replaceAll("\n", "\r\n"));
    expect(windows(["edges", 1, "from"])).toBe(28);
    expect(windows(["nodes", "after"])).toBe(37);
  });
});

/** Every path of a table with its value, lists and tables first. */
function placesIn(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== "object" || value === null) return [path];
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [path, ...entries.flatMap(([key, inner]) => placesIn(inner, [...path, key]))];
}

describe("the line of any key", () => {
  const key = fc.oneof(
    fc.constantFrom("in", "retry", "a.b", "two words", 'quo"te', "ä", "#", "[x]"),
    fc.string(),
  );
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constantFrom('"""', "'''", "]", "} #", "\n[a]\nb = 1"),
  );
  const { table } = fc.letrec((tie) => ({
    table: fc.dictionary(key, tie("value"), { maxKeys: 4, depthIdentifier: "toml" }),
    value: fc.oneof(
      { depthIdentifier: "toml", depthSize: "small" },
      leaf,
      tie("table"),
      fc.array(leaf, { maxLength: 3 }),
      fc.array(tie("table"), { minLength: 1, maxLength: 3 }),
    ),
  }));

  it("is the line of that key, whatever the keys and values are", () => {
    fc.assert(
      fc.property(table, (source) => {
        const text = stringify(source as Record<string, unknown>);
        const lines = text.split("\n");
        const lineOf = tomlLines(text);
        for (const path of placesIn(parse(text))) {
          const last = path.at(-1);
          if (typeof last !== "string") continue;
          const line = lines[lineOf(path) - 1] ?? "";
          const written = [last, JSON.stringify(last).slice(1, -1)];
          expect(
            written.some((name) => line.includes(name)),
            `${JSON.stringify(path)} in\n${text}`,
          ).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });
});
