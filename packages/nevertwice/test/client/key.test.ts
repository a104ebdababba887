/** How keys are made and written. */
import { parseItem } from "structured-headers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { keyHeaderValue, randomKey } from "../../src/client/key.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe("a generated key", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it("is a random UUID", () => {
    const keys = Array.from({ length: 1_000 }, randomKey);
    expect(keys.every((key) => UUID.test(key))).toBe(true);
    expect(new Set(keys).size).toBe(1_000);
  });

  it("is a UUID also without randomUUID, as on a page without https", () => {
    const { crypto } = globalThis;
    const getRandomValues = vi.fn((bytes: Uint8Array) => crypto.getRandomValues(bytes));
    vi.stubGlobal("crypto", { getRandomValues });
    const keys = Array.from({ length: 1_000 }, randomKey);
    expect(getRandomValues).toHaveBeenCalledTimes(1_000);
    expect(keys.filter((key) => !UUID.test(key))).toEqual([]);
    expect(new Set(keys).size).toBe(1_000);
    expect(new Set(keys.map((key) => key[19]))).toEqual(new Set(["8", "9", "a", "b"]));
  });

  it("puts random bytes in the right places", () => {
    vi.stubGlobal("crypto", { getRandomValues: (bytes: Uint8Array) => bytes.fill(0xff) });
    expect(randomKey()).toBe("ffffffff-ffff-4fff-bfff-ffffffffffff");
  });
});

describe("a key in its header", () => {
  it.each([
    ["8e03978e-40d5-43e8-bc93-6894a57f9324", '"8e03978e-40d5-43e8-bc93-6894a57f9324"'],
    ['a"b', '"a\\"b"'],
    ["a\\b", '"a\\\\b"'],
    ["order 17, again; please", '"order 17, again; please"'],
  ])("SF-18 is a String of RFC 9651: %s", (key, sent) => {
    expect(keyHeaderValue(key, "string")).toBe(sent);
    expect(parseItem(sent)[0]).toBe(key);
  });

  it.each(['a"b', "a\\b", "a b", "a,b", "a;b", '"quoted"'])(
    "SF-18 is refused without quotes if that is ambiguous: %s",
    (key) => {
      expect(() => keyHeaderValue(key, "bare")).toThrow(/with format: "bare", it must not contain/);
    },
  );

  it("is sent without quotes otherwise", () => {
    const visible = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).join("");
    const key = visible.replace(/[",;\\]/g, "");
    expect(key).toHaveLength(90);
    expect(keyHeaderValue(key, "bare")).toBe(key);
  });

  it.each(["é", "naïve", "日本", "a\u0000b", "a\nb", "a\r\nX-Injected: 1", "tab\there", "del\x7f", "😀"])(
    "SF-19 is refused if it is not printable ASCII: %j",
    (key) => {
      for (const format of ["string", "bare"] as const) {
        const write = () => keyHeaderValue(key, format);
        expect(write).toThrow(expect.objectContaining({ code: "key-invalid" }));
        expect(write).not.toThrow(key);
      }
    },
  );

  it("is refused if it is empty, not a string, or longer than services accept", () => {
    expect(() => keyHeaderValue("", "string")).toThrow(/empty/);
    expect(() => keyHeaderValue(17 as unknown as string, "string")).toThrow(/not a string/);
    expect(() => keyHeaderValue("x".repeat(256), "string")).toThrow(/longer than 255/);
    expect(keyHeaderValue("x".repeat(255), "bare")).toHaveLength(255);
  });
});
