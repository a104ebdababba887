/** Tests JSON whose members have names that V8 reads wrongly, and that everything else is read as by `JSON.parse`. */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import { decodeOutcome, encodeOutcome } from "../../src/core/outcome.ts";
import { parseJson } from "../../src/core/parse-json.ts";
import { readExactJson } from "../../src/http/exact-json.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { drawValue } from "./odd-values.ts";

/** After the first text of a pair, V8 reads the name in the second one as a backslash. */
const PAIRS = [
  ['{"h":[],"\\\\":0}', '{"h":1,"\\"":2}', ["h", '"']],
  ['{"n":0.1,"\\\\":1,"a":2}', '{"n":0.1,"\\n":1,"a":2}', ["n", "\n", "a"]],
  ['[{"q":1,"a\\\\":1}]', '{"q":1,"a\\u0000":1}', ["q", "a\0"]],
] as const;

describe.each(PAIRS)("after %s", (before, text, names) => {
  test(`${text} has its own names`, () => {
    parseJson(before);
    expect(Object.keys(parseJson(text) as object)).toEqual(names);
  });

  test(`an outcome ${text} is replayed with them`, () => {
    parseJson(before);
    const value = Object.fromEntries(names.map((name, index) => [name, index]));
    const encoded = encodeOutcome("value", value, 1_000);
    if (!encoded.kept) expect.unreachable();
    expect(decodeOutcome(encoded.text)).toMatchObject({ value });
  });

  test(`a request ${text} has another meaning`, () => {
    const meaning = (json: string) => readExactJson(new TextEncoder().encode(json))?.value;
    const first = meaning(before);
    expect(meaning(text)).not.toEqual(first);
    expect(meaning(text)).toEqual(parseJson(text));
  });
});

test("values of every kind come back from their text", () => {
  const random = seededRandom(3);
  for (let i = 0; i < 5_000; i++) {
    const text = JSON.stringify([drawValue(random, { odd: 0, deep: 0.3 })]);
    if (JSON.stringify(parseJson(text)) !== text) expect.unreachable(text);
  }
});

test.each([
  ' { "a\\n" : [ ] , "b" : { } } ',
  '{"a\\n":1,"a\\n":2}',
  '{"\\u005f_proto__":{"x":1},"2":1,"1":2}',
  '[{"\\t":null},true,-1.5e3,"\\"},{"]',
])("reads %s like JSON.parse", (text) => {
  const value = parseJson(text);
  expect(isDeepStrictEqual(value, JSON.parse(text))).toBe(true);
  expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
});

test("reads a text that is nested deeply", () => {
  const text = `${'{"\\n":['.repeat(50_000)}${"]}".repeat(50_000)}`;
  expect(Object.keys(parseJson(text) as object)).toEqual(["\n"]);
});

test("throws a SyntaxError for what is no JSON", () => {
  expect(() => parseJson('{"\\n":1')).toThrow(SyntaxError);
});
