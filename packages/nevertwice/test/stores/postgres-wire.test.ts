/** The texts that go over the wire: array literals, and the payloads of notifications. */
import { expect, test } from "vitest";
import { utf8Bytes } from "../../src/core/bytes.ts";
import { idsOf, payloadsOf, shortId } from "../../src/stores/postgres/payload.ts";
import { leftMs, momentMs, plainArray, textArray } from "../../src/stores/postgres/wire.ts";

test("an array literal quotes every text, and escapes what the quotes need", () => {
  expect(textArray([])).toBe("{}");
  expect(textArray(["a", undefined, "", "NULL"])).toBe('{"a",NULL,"","NULL"}');
  expect(textArray(['say "hi"', "back\\slash", "{a,b}"])).toBe('{"say \\"hi\\"","back\\\\slash","{a,b}"}');
  const odd = 'tab\t line\n "q" \u007f \u2028 \u{1f4b3} \\ end';
  expect(textArray([odd])).toBe(`{"${odd.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"}`);
  expect(plainArray([1, undefined, 30_000_000, true, false])).toBe("{1,NULL,30000000,true,false}");
});

test("a moment is rounded down, and what is left of a lease up", () => {
  expect(momentMs("1700000000123999")).toBe(1_700_000_000_123);
  expect([leftMs("0"), leftMs("1"), leftMs("1000"), leftMs("1001")]).toEqual([0, 1, 1, 2]);
});

test("payloads hold every id, and none is longer than Postgres takes", () => {
  const ids = Array.from({ length: 5_000 }, (_, index) => `${index}`.padStart(64, "abcdef"));
  const strange = ['"quotes"', "\u0000\u0001", "\u{1f4b3}".repeat(20), "a,b", ""];
  const payloads = payloadsOf([...ids, ...strange]);
  expect(payloads.length).toBeGreaterThan(10);
  expect(Math.max(...payloads.map(utf8Bytes))).toBeLessThan(8_000);
  expect(payloads.flatMap(idsOf)).toEqual([...ids, ...strange].map(shortId));
  expect(payloadsOf([])).toEqual([]);
});

test("what is no payload of ours names nothing", () => {
  for (const payload of ["", "nonsense", "5", "null", '{"a":1}']) expect(idsOf(payload)).toEqual([]);
});
