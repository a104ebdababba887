/** Tests the texts that go over the wire: array literals, and the payloads of notifications. */
import { expect, test } from "vitest";
import { utf8Bytes } from "../../src/core/bytes.ts";
import { leftMs, momentMs, plainArray, textArray } from "../../src/stores/postgres/client.ts";
import { parsePayload, shortId, toPayloads } from "../../src/stores/postgres/notifier.ts";

test("an array literal quotes every string, and escapes quotes and backslashes", () => {
  expect(textArray([])).toBe("{}");
  expect(textArray(["a", undefined, "", "NULL"])).toBe('{"a",NULL,"","NULL"}');
  expect(textArray(['say "hi"', "back\\slash", "{a,b}"])).toBe('{"say \\"hi\\"","back\\\\slash","{a,b}"}');
  const odd = 'tab\t line\n "q" \u007f \u2028 \u{1f4b3} \\ end';
  expect(textArray([odd])).toBe(`{"${odd.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"}`);
  expect(plainArray([1, undefined, 30_000_000, true, false])).toBe("{1,NULL,30000000,true,false}");
});

test("a time is rounded down, and the rest of a lease is rounded up", () => {
  expect(momentMs("1700000000123999")).toBe(1_700_000_000_123);
  expect([leftMs("0"), leftMs("1"), leftMs("1000"), leftMs("1001")]).toEqual([0, 1, 1, 2]);
});

test("payloads contain every id, and none is longer than Postgres allows", () => {
  const ids = Array.from({ length: 5_000 }, (_, index) => `${index}`.padStart(64, "abcdef"));
  const strange = ['"quotes"', "\u0000\u0001", "\u{1f4b3}".repeat(20), "a,b", ""];
  const payloads = toPayloads([...ids, ...strange]);
  expect(payloads.length).toBeGreaterThan(10);
  expect(Math.max(...payloads.map(utf8Bytes))).toBeLessThan(8_000);
  expect(payloads.flatMap(parsePayload)).toEqual([...ids, ...strange].map(shortId));
  expect(toPayloads([])).toEqual([]);
});

test("a payload that the store did not write has no ids", () => {
  for (const payload of ["", "nonsense", "5", "null", '{"a":1}']) expect(parsePayload(payload)).toEqual([]);
});
