/** The translation of driver errors that all stores share. */
import { expect, test } from "vitest";
import { NevertwiceError } from "../../src/core/errors.ts";
import { type DriverErrorTable, isRepeatable, translateDriverError } from "../../src/stores/driver-errors.ts";

const TABLE: DriverErrorTable = {
  rules: [
    { codes: [1213], code: "unavailable", says: "a deadlock", repeat: true },
    { codes: ["DENIED"], text: /password/, code: "store-unsafe", says: "wrong password" },
    { codes: /^DEN/, code: "store-unsafe", says: "not allowed" },
    { text: /disk/, code: "store-full", says: "no room" },
  ],
  codesOf: (error) => [(error as { code?: unknown }).code],
  otherwise: (error) =>
    (error as { isReply?: boolean }).isReply ? { code: "store-unsafe", says: "refused" } : undefined,
};

const driverError = (message: string, more: object = {}) => Object.assign(new Error(message), more);

test.each([
  ["a number", driverError("x", { code: 1213 }), "unavailable", "a deadlock (x)"],
  ["a code and a text", driverError("bad password", { code: "DENIED" }), "store-unsafe", "wrong password"],
  ["a pattern of codes", driverError("x", { code: "DENIED" }), "store-unsafe", "not allowed (x)"],
  ["a text", driverError("the disk is full"), "store-full", "no room (the disk is full)"],
  ["no rule, but a reply", driverError("x", { isReply: true }), "store-unsafe", "refused (x)"],
])("translates an error that matches by %s", (_, error, code, message) => {
  expect(translateDriverError(error, TABLE)).toMatchObject({
    code,
    message: expect.stringContaining(message),
    cause: error,
  });
});

test("returns an error that matches nothing, and one that is ours, unchanged", () => {
  const unknown = driverError("a bug of the driver", { code: "ERR_BUG" });
  const ours = new NevertwiceError("unavailable", "the disk is closed.");
  expect(translateDriverError(unknown, TABLE)).toBe(unknown);
  expect(translateDriverError(ours, TABLE)).toBe(ours);
});

test("uses the first rule that matches", () => {
  const error = driverError("the disk", { code: "DENIED" });
  expect(translateDriverError(error, TABLE)).toMatchObject({
    message: "store-unsafe: not allowed (the disk)",
  });
});

test("knows a repeatable error before and after its translation", () => {
  const deadlock = driverError("x", { code: 1213 });
  expect(isRepeatable(deadlock, TABLE)).toBe(true);
  expect(isRepeatable(translateDriverError(deadlock, TABLE), TABLE)).toBe(true);
  expect(isRepeatable(driverError("x", { code: "DENIED" }), TABLE)).toBe(false);
  expect(isRepeatable(new NevertwiceError("unavailable", "closed."), TABLE)).toBe(false);
});
