/** The digest that identifies a retry. Its value is pinned: two versions that compute different digests would reject each other's retries. */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { differences, digestParameters } from "../../src/reservations/action-request.ts";

const HOLD = { resource: "room", requester: "ann", durationMs: 1_000, units: 1 };

test("the digest is the SHA-256 of length-prefixed parts sorted by name, prefixed with its version", () => {
  const parts =
    "22:nevertwice/reservation1:19:placeHold10:durationMs11:number 10009:requester10:string ann" +
    "8:resource11:string room5:units8:number 1";
  expect(digestParameters("placeHold", HOLD)).toBe(`1:${hash("sha256", parts, "hex")}`);
  expect(digestParameters("placeHold", HOLD)).toBe(
    "1:03631dbf8c57f20a85094240d2177528ad82c3aa01942cd920b3b21452d851ff",
  );
});

test("the order of parameters and parameters that are undefined do not change the digest", () => {
  const { units, ...rest } = HOLD;
  expect(digestParameters("placeHold", { units, ...rest })).toBe(digestParameters("placeHold", HOLD));
  expect(digestParameters("confirm", { id: "c-1", units: undefined })).toBe(
    digestParameters("confirm", { id: "c-1" }),
  );
});

test("another action, value, type or name gives another digest", () => {
  const digests = [
    digestParameters("placeHold", HOLD),
    digestParameters("placeHold", { ...HOLD, units: 2 }),
    digestParameters("placeHold", { ...HOLD, units: "1" }),
    digestParameters("placeHold", { ...HOLD, resource: "room " }),
    digestParameters("placeHold", { ...HOLD, resource: "ann", requester: "room" }),
    digestParameters("confirm", { id: "c-1" }),
    digestParameters("release", { id: "c-1" }),
    digestParameters("confirm", { id: "c-1", units: 1 }),
    digestParameters("confirm", { id: "5:units" }),
    digestParameters("confirm", { id: null }),
    digestParameters("confirm", { id: "null" }),
    digestParameters("confirm", { id: {} }),
  ];
  expect(new Set(digests).size).toBe(digests.length);
});

test("parts that concatenate to the same text give different digests", () => {
  expect(digestParameters("confirm", { a: "b1:c", d: "e" })).not.toBe(
    digestParameters("confirm", { a: "b", c: "1:d", d: "e" }),
  );
});

test("differences() returns the sorted names of the parameters that differ", () => {
  expect(differences(HOLD, { ...HOLD, units: 2, requester: "bob" })).toEqual(["requester", "units"]);
  expect(differences({ id: "a" }, { id: "a", units: 1 })).toEqual(["units"]);
  expect(differences({ units: 1 }, { units: "1" })).toEqual(["units"]);
  expect(differences(HOLD, { ...HOLD })).toEqual([]);
});
