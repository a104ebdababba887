/**
 * Tests that sealing keys are checked when they are passed, can be replaced while the process runs, and are never
 * printed.
 */
import { createSecretKey, generateKeyPairSync, randomBytes } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { keyringFrom, type SealingKey, type SealingOptions } from "../../src/sealing/keyring.ts";
import { seal, unseal } from "../../src/sealing/seal.ts";

const BYTES = randomBytes(32);
const OTHER = randomBytes(32);

function refusalOf(options: unknown): { code: string; message: string } {
  try {
    keyringFrom(options as SealingOptions);
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("it was taken");
}

describe("a sealing key", () => {
  test.each<[string, SealingKey]>([
    ["bytes", new Uint8Array(BYTES)],
    ["a Buffer", BYTES],
    ["a secret KeyObject", createSecretKey(BYTES)],
    ["hex", BYTES.toString("hex")],
    ["upper-case hex", BYTES.toString("hex").toUpperCase()],
    ["base64", BYTES.toString("base64")],
    ["base64url", BYTES.toString("base64url")],
  ])("may be passed as %s", (_form, key) => {
    const sealedText = seal(keyringFrom({ keys: { k: BYTES }, current: "k" })(), "id", "paid");
    expect(unseal(keyringFrom({ keys: { k: key }, current: "k" })(), "id", sealedText)).toBe("paid");
  });

  test.each<[string, unknown]>([
    ["16 bytes", randomBytes(16)],
    ["33 bytes", randomBytes(33)],
    ["a passphrase", "correct horse battery staple"],
    ["32 characters", "x".repeat(32)],
    ["63 hex digits", "a".repeat(63)],
    ["nothing", undefined],
    ["null", null],
    ["a number", 42],
    ["a KeyObject of 16 bytes", createSecretKey(randomBytes(16))],
    ["a private key", generateKeyPairSync("ed25519").privateKey],
    ["an ArrayBuffer", new ArrayBuffer(32)],
  ])("is refused as %s, by its id", (_form, key) => {
    const { code, message } = refusalOf({ keys: { good: BYTES, bad: key }, current: "good" });
    expect(code).toBe("options-invalid");
    expect(message).toContain("keys.bad");
    expect(message).toContain("32 bytes");
  });

  test("is copied: wiping the bytes afterwards changes nothing", () => {
    const bytes = new Uint8Array(BYTES);
    const ring = keyringFrom({ keys: { k: bytes }, current: "k" })();
    const sealedText = seal(ring, "id", "paid");
    bytes.fill(0);
    expect(unseal(ring, "id", sealedText)).toBe("paid");
  });
});

describe("the options", () => {
  test.each<[string, unknown, string]>([
    ["nothing", undefined, "options"],
    ["no keys", { current: "k" }, "keys is missing"],
    ["null as keys", { keys: null, current: "k" }, "keys is missing"],
    ["no current id", { keys: { k: BYTES } }, "current must be"],
    ["a current id without a key", { keys: { k: BYTES }, current: "j" }, "there are k."],
    ["no key at all", { keys: {}, current: "k" }, "there are none."],
    ["an inherited name as current id", { keys: { k: BYTES }, current: "toString" }, "current must be"],
    ["an id with a dot", { keys: { "a.b": BYTES }, current: "a.b" }, "1 to 32 letters"],
    ["an empty id", { keys: { "": BYTES }, current: "" }, "1 to 32 letters"],
    ["an id of 33 letters", { keys: { ["i".repeat(33)]: BYTES }, current: "i" }, "1 to 32 letters"],
    ["an unknown option", { keys: { k: BYTES }, current: "k", algorithm: "rot13" }, '"algorithm"'],
    [
      "a string as acceptUnsealed",
      { keys: { k: BYTES }, current: "k", acceptUnsealed: "yes" },
      "acceptUnsealed",
    ],
    ["a promise of options", () => Promise.resolve({ keys: { k: BYTES }, current: "k" }), "keys is missing"],
  ])("are refused with %s", (_what, options, words) => {
    const { code, message } = refusalOf(options);
    expect(code).toBe("options-invalid");
    expect(message).toContain(words);
  });

  test("that confuse ids and keys are refused without printing a key", () => {
    for (const text of [BYTES.toString("hex"), BYTES.toString("base64"), BYTES.toString("base64url")]) {
      for (const options of [
        { keys: { [text]: "k" }, current: "k" },
        { keys: { [text]: BYTES }, current: text },
        { keys: { k: BYTES }, current: text },
        { keys: { k: `${text}!` }, current: "k" },
        { keys: text, current: "k" },
      ])
        expect(inspect(refusalOf(options))).not.toContain(text.slice(0, 20));
    }
  });

  test("are not printed with the keys made from them", () => {
    const ring = keyringFrom({ keys: { k: BYTES }, current: "k" })();
    const printed =
      inspect(ring, { depth: null, showHidden: true }) + JSON.stringify([...ring.keys, ring.current]);
    for (const form of ["hex", "base64", "base64url"] as const)
      expect(printed).not.toContain(BYTES.toString(form).slice(0, 10));
    expect(printed).not.toContain([...BYTES.subarray(0, 4)].join(", "));
  });
});

describe("options given as a function", () => {
  test("are read at every use, so that keys can be rotated while the process runs", () => {
    let options: SealingOptions = { keys: { old: BYTES }, current: "old" };
    const keyring = keyringFrom(() => options);
    const before = seal(keyring(), "id", "first");
    options = { keys: { old: BYTES, new: OTHER }, current: "new" };
    const after = seal(keyring(), "id", "second");
    expect([before.split(".")[2], after.split(".")[2]]).toEqual(["old", "new"]);
    expect([unseal(keyring(), "id", before), unseal(keyring(), "id", after)]).toEqual(["first", "second"]);
    options = { keys: { new: OTHER }, current: "new" };
    expect(() => unseal(keyring(), "id", before)).toThrow(
      expect.objectContaining({ code: "sealing-failed" }),
    );
  });

  test("are checked once per object, not at every use", () => {
    const options: SealingOptions = { keys: { k: BYTES }, current: "k" };
    const keyring = keyringFrom(() => options);
    expect(keyring()).toBe(keyring());
  });

  test("throw options-invalid at construction if they are invalid then, and sealing-failed if they become invalid later", () => {
    expect(refusalOf(() => ({ keys: {}, current: "k" })).code).toBe("options-invalid");
    const answers: (() => SealingOptions)[] = [
      () => ({ keys: { k: BYTES }, current: "gone" }),
      () => {
        throw new Error("the vault is closed");
      },
      () => ({ keys: { k: OTHER }, current: "k" }),
    ];
    let next: () => SealingOptions = () => ({ keys: { k: BYTES }, current: "k" });
    const keyring = keyringFrom(() => next());
    next = answers[0] as () => SealingOptions;
    expect(keyring).toThrow(
      expect.objectContaining({
        code: "sealing-failed",
        cause: expect.objectContaining({ code: "options-invalid" }),
      }),
    );
    next = answers[1] as () => SealingOptions;
    expect(keyring).toThrow(
      expect.objectContaining({ cause: expect.objectContaining({ message: "the vault is closed" }) }),
    );
    next = answers[2] as () => SealingOptions;
    expect(keyring().current.id).toBe("k");
  });
});
