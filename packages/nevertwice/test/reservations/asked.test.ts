/** The digest that a retry is known by, pinned: processes of two versions that disagree on it would refuse retries. */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { differences, digestOf } from "../../src/reservations/asked.ts";

const HOLD = { resource: "room", requester: "ann", durationMs: 1_000, units: 1 };

test("the digest is SHA-256 over length-prefixed parts in the order of their names, with its version before it", () => {
  const parts =
    "22:nevertwice/reservation1:19:placeHold10:durationMs11:number 10009:requester10:string ann" +
    "8:resource11:string room5:units8:number 1";
  expect(digestOf("placeHold", HOLD)).toBe(`1:${hash("sha256", parts, "hex")}`);
  expect(digestOf("placeHold", HOLD)).toBe(
    "1:03631dbf8c57f20a85094240d2177528ad82c3aa01942cd920b3b21452d851ff",
  );
});

test("the order in which parameters were given, and what was given as undefined, is no difference", () => {
  const { units, ...rest } = HOLD;
  expect(digestOf("placeHold", { units, ...rest })).toBe(digestOf("placeHold", HOLD));
  expect(digestOf("confirm", { id: "c-1", units: undefined })).toBe(digestOf("confirm", { id: "c-1" }));
});

test("another action, value, type or name is another digest", () => {
  const digests = [
    digestOf("placeHold", HOLD),
    digestOf("placeHold", { ...HOLD, units: 2 }),
    digestOf("placeHold", { ...HOLD, units: "1" }),
    digestOf("placeHold", { ...HOLD, resource: "room " }),
    digestOf("placeHold", { ...HOLD, resource: "ann", requester: "room" }),
    digestOf("confirm", { id: "c-1" }),
    digestOf("release", { id: "c-1" }),
    digestOf("confirm", { id: "c-1", units: 1 }),
    digestOf("confirm", { id: "5:units" }),
    digestOf("confirm", { id: null }),
    digestOf("confirm", { id: "null" }),
    digestOf("confirm", { id: {} }),
  ];
  expect(new Set(digests).size).toBe(digests.length);
});

test("text that runs into its neighbour makes no other digest equal", () => {
  expect(digestOf("confirm", { a: "b1:c", d: "e" })).not.toBe(
    digestOf("confirm", { a: "b", c: "1:d", d: "e" }),
  );
});

test("what differs is named, in order", () => {
  expect(differences(HOLD, { ...HOLD, units: 2, requester: "bob" })).toEqual(["requester", "units"]);
  expect(differences({ id: "a" }, { id: "a", units: 1 })).toEqual(["units"]);
  expect(differences({ units: 1 }, { units: "1" })).toEqual(["units"]);
  expect(differences(HOLD, { ...HOLD })).toEqual([]);
});
