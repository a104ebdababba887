/** Tests that a sealed text opens only for its own record, with its own key, and unaltered. */
import { createDecipheriv, createHmac, randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { utf8Bytes } from "../../src/core/bytes.ts";
import { FORGOTTEN, notKept } from "../../src/core/outcome.ts";
import { type Keyring, keyringFrom } from "../../src/sealing/keyring.ts";
import { roomWithin, seal, unseal } from "../../src/sealing/seal.ts";

const ID = "a".repeat(64);
const OTHER_ID = "b".repeat(64);
const KEY = randomBytes(32);

function ringOf(keys: Record<string, Uint8Array>, current: string, acceptUnsealed = false): Keyring {
  return keyringFrom({ keys, current, acceptUnsealed })();
}

const RING = ringOf({ k1: KEY }, "k1");

const text = fc
  .oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "binary" }), fc.json())
  .filter((each) => each.isWellFormed());

const FAILED = expect.objectContaining({ code: "sealing-failed", status: 500, retryable: false });

function failure(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

describe("a sealed text", () => {
  test("opens as exactly the text that was sealed", () => {
    fc.assert(fc.property(text, (each) => unseal(RING, ID, seal(RING, ID, each)) === each));
  });

  test("is plain ASCII in a known format, and names the key that sealed it", () => {
    fc.assert(
      fc.property(text, (each) => {
        expect(seal(RING, ID, each)).toMatch(/^sealed\.1\.k1\.[A-Za-z0-9_-]{38,}$/);
      }),
    );
  });

  test("has the same length for texts of the same length, and contains nothing of the text", () => {
    const one = seal(RING, ID, "A".repeat(200));
    expect(one).toHaveLength(seal(RING, ID, "\n".repeat(200)).length);
    expect(one).not.toContain(Buffer.from("A".repeat(12)).toString("base64url"));
  });

  test("does not open after any one character is changed", () => {
    const sealedText = seal(RING, ID, '["1vp",{"receipt":"r-1"}]');
    const at = fc.nat(sealedText.length - 1);
    const character = fc.oneof(
      fc.constantFrom(..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n"),
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
    );
    fc.assert(
      fc.property(at, character, (index, other) => {
        const altered = sealedText.slice(0, index) + other + sealedText.slice(index + 1);
        fc.pre(altered !== sealedText);
        expect(failure(() => unseal(RING, ID, altered))).toEqual(FAILED);
      }),
      { numRuns: 2_000 },
    );
  });

  test("does not open after the spare bits of its last character are changed", () => {
    // 28 bytes of nonce and tag and 1 of text: the last character carries two bits that decode to nothing.
    const sealedText = seal(RING, ID, "x");
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const others = [...alphabet].map((last) => sealedText.slice(0, -1) + last);
    const opening = others.filter((each) => failure(() => unseal(RING, ID, each)) === "x");
    expect(opening).toEqual([sealedText]);
  });

  test("does not open if it is cut short, lengthened, or has its parts exchanged", () => {
    const sealedText = seal(RING, ID, "paid");
    const body = sealedText.slice("sealed.1.k1.".length);
    for (const each of [
      sealedText.slice(0, -1),
      sealedText.slice(0, 30),
      "sealed.1.k1.",
      "sealed.1.k1",
      "sealed.1.",
      "sealed.",
      `${sealedText}A`,
      `${sealedText}=`,
      ` ${sealedText}`,
      `sealed.2.k1.${body}`,
      `sealed.1..${body}`,
      `sealed.1.k1.k1.${body}`,
    ])
      expect(
        failure(() => unseal(RING, ID, each)),
        each,
      ).toEqual(FAILED);
  });

  test("does not open for another record", () => {
    const sealedText = seal(RING, ID, "paid");
    expect(failure(() => unseal(RING, OTHER_ID, sealedText))).toEqual(FAILED);
  });

  test("does not open with another key of the same id, nor with the same key under another id", () => {
    const sealedText = seal(RING, ID, "paid");
    expect(failure(() => unseal(ringOf({ k1: randomBytes(32) }, "k1"), ID, sealedText))).toEqual(FAILED);
    const renamed = sealedText.replace(".k1.", ".k2.");
    expect(failure(() => unseal(ringOf({ k1: KEY, k2: KEY }, "k1"), ID, renamed))).toEqual(FAILED);
  });

  test("names the key that is missing", () => {
    const sealedText = seal(ringOf({ "spring-2026": KEY }, "spring-2026"), ID, "paid");
    expect(failure(() => unseal(RING, ID, sealedText))).toMatchObject({
      code: "sealing-failed",
      message: expect.stringContaining('"spring-2026"'),
    });
  });

  test("in another format is distinguished from an altered one", () => {
    for (const form of ["sealed.2.k1.AAAA", "sealed.1.k1"])
      expect(failure(() => unseal(RING, ID, form))).toMatchObject({
        message: expect.stringContaining("its format is unknown to this version"),
      });
  });

  test("never repeats a nonce", () => {
    const nonces = Array.from({ length: 10_000 }, () => seal(RING, ID, "").slice("sealed.1.k1.".length, 28));
    expect(new Set(nonces).size).toBe(10_000);
  });

  test("uses a key derived for its record, so that records do not share the nonces of one key", () => {
    const bytes = Buffer.from(seal(RING, ID, "paid").slice("sealed.1.k1.".length), "base64url");
    const open = (key: Uint8Array) => {
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAAD(Buffer.from(`sealed.1.k1.${ID}`)).setAuthTag(bytes.subarray(12, 28));
      return decipher.update(bytes.subarray(28), undefined, "utf8") + decipher.final("utf8");
    };
    const derived = createHmac("sha256", KEY).update(`nevertwice/sealing/1${ID}`).digest();
    expect(open(derived)).toBe("paid");
    expect(() => open(KEY)).toThrow();
  });

  test("of this version must open in every later version", () => {
    const ring = ringOf({ k1: Buffer.alloc(32, 7) }, "k1");
    const kept =
      "sealed.1.k1.AAECAwQFBgcICQoL0jl0IVzA_TvDlUGv25jhgUoYDeI3HEStrB8GqIggRH89DVbjiblcguFAwCJWDBBGS9AQ9lUFHn4";
    expect(unseal(ring, ID, kept)).toBe('["1vp",{"receipt":"r-1","größe":"ß"}]');
  });
});

describe("a text that is not sealed", () => {
  test("does not open, whatever it contains", () => {
    for (const plain of ['["1vp",{"receipt":"r-1"}]', "", "paid", '["1np",{"reason":"other"}]'])
      expect(
        failure(() => unseal(RING, ID, plain)),
        plain,
      ).toEqual(FAILED);
  });

  test("is accepted unchanged if it only says that the work is done and its outcome is not stored", () => {
    for (const marker of [FORGOTTEN, notKept("too-large"), notKept("not-encodable")])
      expect(unseal(RING, ID, marker)).toBe(marker);
  });

  test("is accepted unchanged under acceptUnsealed, but an altered sealed text is not", () => {
    const ring = ringOf({ k1: KEY }, "k1", true);
    expect(unseal(ring, ID, '["1vp","paid"]')).toBe('["1vp","paid"]');
    expect(failure(() => unseal(ring, ID, `${seal(ring, ID, "paid")}A`))).toEqual(FAILED);
    expect(failure(() => unseal(ring, ID, "sealed.9.k1.AAAA"))).toEqual(FAILED);
  });
});

describe("the room within a store's limit", () => {
  test("is what still fits after sealing, with the longest key id", () => {
    const ring = ringOf({ ["i".repeat(32)]: KEY }, "i".repeat(32));
    for (let limit = 100; limit < 400; limit++) {
      const room = roomWithin(limit);
      expect(utf8Bytes(seal(ring, ID, "x".repeat(room)))).toBeLessThanOrEqual(limit);
      expect(utf8Bytes(seal(ring, ID, "x".repeat(room + 1)))).toBeGreaterThan(limit);
    }
    expect([roomWithin(0), roomWithin(Number.POSITIVE_INFINITY)]).toEqual([0, Number.POSITIVE_INFINITY]);
  });
});
