/** Tests the one error class: its table of codes, its brand, and what it prints. */
import { inspect } from "node:util";
import { describe, expect, expectTypeOf, test } from "vitest";
import { ERROR_CODES, type ErrorCode, isNevertwiceError, NevertwiceError } from "../../src/core/errors.ts";
import type { NotKeptReason } from "../../src/core/outcome.ts";
import type { RecordState } from "../../src/core/store.ts";

const TABLE: readonly [code: ErrorCode, status: number, retryable: boolean][] = [
  ["key-missing", 400, false],
  ["key-invalid", 400, false],
  ["fingerprint-invalid", 400, false],
  ["request-invalid", 400, false],
  ["not-authenticated", 401, false],
  ["signature-invalid", 401, false],
  ["not-authorized", 403, false],
  ["not-found", 404, false],
  ["request-timeout", 408, true],
  ["pending", 409, true],
  ["already-done", 409, false],
  ["unknown", 409, false],
  ["expired", 409, false],
  ["token-spent", 409, false],
  ["concurrent-modification", 409, false],
  ["body-too-large", 413, false],
  ["conflict", 422, false],
  ["quota-exceeded", 429, true],
  ["scope-missing", 500, false],
  ["lease-lost", 500, true],
  ["not-kept", 500, false],
  ["sealing-failed", 500, false],
  ["options-invalid", 500, false],
  ["manifest-invalid", 500, false],
  ["driver-missing", 500, false],
  ["store-unsafe", 500, false],
  ["internal-error", 500, false],
  ["not-supported", 501, false],
  ["upstream-lost", 502, false],
  ["upstream-unreachable", 503, true],
  ["unavailable", 503, true],
  ["store-full", 503, true],
  ["guard-closed", 503, true],
];

describe("the table of codes", () => {
  test("has exactly these codes", () => {
    expect(Object.keys(ERROR_CODES).sort()).toEqual(TABLE.map(([code]) => code).sort());
  });

  test.each(TABLE)("gives %s the status %i and retryable %s", (code, status, retryable) => {
    expect(new NevertwiceError(code, "no.")).toMatchObject({ code, status, retryable });
  });

  test("spells every code in lower case with hyphens, so that it fits a URL, a label and an anchor", () => {
    for (const code of Object.keys(ERROR_CODES)) expect(code).toMatch(/^[a-z]+(-[a-z]+)*$/);
  });
});

describe("an error", () => {
  test("starts its message with its code", () => {
    expect(new NevertwiceError("pending", "come back later.").message).toBe("pending: come back later.");
  });

  test("is an Error named NevertwiceError, with a stack that shows where it was created", () => {
    const error = new NevertwiceError("pending", "no.");
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe("NevertwiceError");
    expect(error.stack).toContain("errors.test.ts");
    expect(String(error)).toBe("NevertwiceError: pending: no.");
  });

  test("has no fence unless it was given one", () => {
    expect("fence" in new NevertwiceError("unknown", "no.")).toBe(false);
    expect(new NevertwiceError("unknown", "no.", { fence: 7 }).fence).toBe(7);
    expect(new NevertwiceError("unknown", "no.", { fence: 0 }).fence).toBe(0);
  });

  test("keeps its cause, even an undefined one, and has none otherwise", () => {
    const cause = new Error("the network");
    expect(new NevertwiceError("unavailable", "no.", { cause }).cause).toBe(cause);
    expect("cause" in new NevertwiceError("unavailable", "no.", { cause: undefined })).toBe(true);
    expect("cause" in new NevertwiceError("unavailable", "no.")).toBe(false);
  });

  test("prints code, status and retryable once, and does not repeat its brand or its name", () => {
    const shown = inspect(new NevertwiceError("conflict", "no."));
    expect(shown).toContain("code: 'conflict'");
    expect(shown).not.toContain("nevertwice.error");
    expect(shown).not.toContain("name:");
    expect(Object.keys(new NevertwiceError("conflict", "no."))).toEqual(["code", "status", "retryable"]);
  });
});

describe("isNevertwiceError", () => {
  test("recognises our errors, and distinguishes their codes", () => {
    const error = new NevertwiceError("conflict", "no.");
    expect(isNevertwiceError(error)).toBe(true);
    expect(isNevertwiceError(error, "conflict")).toBe(true);
    expect(isNevertwiceError(error, "pending")).toBe(false);
  });

  test("recognises the errors of another copy of the module, where instanceof does not", async () => {
    const copy: typeof import("../../src/core/errors.ts") = await import(
      `../../src/core/errors.ts?${"another-copy"}`
    );
    expect(copy.NevertwiceError).not.toBe(NevertwiceError);
    const error: unknown = new copy.NevertwiceError("unknown", "no.", { fence: 3 });
    expect(error instanceof NevertwiceError).toBe(false);
    expect(isNevertwiceError(error, "unknown")).toBe(true);
    expect(copy.isNevertwiceError(new NevertwiceError("unknown", "no."), "unknown")).toBe(true);
  });

  test("recognises any object with the brand that all copies share", () => {
    const error = Object.assign(new Error("from elsewhere"), {
      [Symbol.for("nevertwice.error")]: true,
      code: "pending",
    });
    expect(isNevertwiceError(error, "pending")).toBe(true);
    expect(isNevertwiceError(error, "conflict")).toBe(false);
  });

  test.each([undefined, null, "conflict: no.", 422, true, 1n, Symbol.for("nevertwice.error"), () => {}])(
    "returns false for %s",
    (value) => {
      expect(isNevertwiceError(value)).toBe(false);
      expect(isNevertwiceError(value, "conflict")).toBe(false);
    },
  );

  test("does not accept an error only because it has the same code, name or message", () => {
    const lookalike = Object.assign(new Error("conflict: no."), {
      name: "NevertwiceError",
      code: "conflict",
    });
    expect(isNevertwiceError(lookalike)).toBe(false);
    expect(isNevertwiceError({ code: "conflict" }, "conflict")).toBe(false);
  });

  test("narrows the type", () => {
    const error: unknown = new NevertwiceError("conflict", "no.");
    if (isNevertwiceError(error)) expectTypeOf(error).toEqualTypeOf<NevertwiceError>();
    expectTypeOf<NevertwiceError["code"]>().toEqualTypeOf<ErrorCode>();
    expectTypeOf<NevertwiceError["fence"]>().toEqualTypeOf<number | undefined>();
  });

  test("narrows the type to the given code, and to the fields that only this code has", () => {
    const error: unknown = new NevertwiceError("conflict", "no.", { state: "completed" });
    if (isNevertwiceError(error, "conflict")) {
      expectTypeOf(error.code).toEqualTypeOf<"conflict">();
      expectTypeOf(error.state).toEqualTypeOf<RecordState | undefined>();
      // @ts-expect-error: only `unavailable` says how long the store was waited for.
      expect(error.waitedMs).toBeUndefined();
    }
    if (isNevertwiceError(error, "pending"))
      expectTypeOf(error.leaseLeftMs).toEqualTypeOf<number | undefined>();
    if (isNevertwiceError(error, "unavailable"))
      expectTypeOf(error.waitedMs).toEqualTypeOf<number | undefined>();
    if (isNevertwiceError(error, "not-kept"))
      expectTypeOf(error.reason).toEqualTypeOf<NotKeptReason | undefined>();
    if (isNevertwiceError(error, "unknown")) expectTypeOf(error.fence).toEqualTypeOf<number | undefined>();
    if (isNevertwiceError(error, "store-full")) expectTypeOf(error.code).toEqualTypeOf<"store-full">();
  });

  test("still narrows an error with another code to NevertwiceError", () => {
    const error: NevertwiceError = new NevertwiceError("pending", "no.");
    if (!isNevertwiceError(error, "conflict")) expectTypeOf(error).toEqualTypeOf<NevertwiceError>();
  });

  test("accepts a code that is known only at run time", () => {
    const code = "pending" as ErrorCode | undefined;
    const error: unknown = new NevertwiceError("pending", "no.");
    if (isNevertwiceError(error, code)) expectTypeOf(error).toEqualTypeOf<NevertwiceError>();
  });
});
