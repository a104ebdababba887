/** Tests the keys of reservations. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { page } from "../documents.ts";
import { HOUR_MS, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const rejected = (reason: string) => expect.objectContaining({ ok: false, reason });

test("Grace: caller-supplied key: the caller brings it, and equal keys are one request", async () => {
  const { desk } = openDesk();
  const first = await desk.placeHold({ ...ROOM, key: "booking-1" });
  expect(await desk.placeHold({ ...ROOM, key: "booking-1" })).toEqual(first);
  expect(await desk.placeHold({ ...ROOM, key: "booking-2" })).toEqual(rejected("resource-unavailable"));
});

test("Grace: bound to action type: a key that placed a hold ends none", async () => {
  const { desk } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  for (const act of [desk.confirm, desk.release, desk.expire, desk.giveBack])
    expect(await act({ id, key: "k" })).toEqual(rejected("token-collision"));
  expect(await desk.get(id)).toMatchObject({ state: "held" });
});

test("Grace: key required → error: without one nothing is done", async () => {
  const { desk, store } = openDesk();
  for (const key of [undefined, null, "", 7])
    expect(await desk.placeHold({ ...ROOM, key: key as string })).toEqual(rejected("invalid-request"));
  expect(store.transactions).toBe(0);
});

test("Grace: key length limit: 256 bytes, counted as bytes", async () => {
  const { desk } = openDesk();
  for (const key of ["k".repeat(257), "é".repeat(129)])
    expect(await desk.placeHold({ ...ROOM, key })).toEqual(rejected("invalid-request"));
  expect(await desk.placeHold({ ...ROOM, key: "é".repeat(128) })).toMatchObject({ ok: true });
});

test("Grace: opaque byte-exact comparison: nothing is trimmed, folded or normalised", async () => {
  const { desk } = openDesk();
  const keys = ["k", "K", "k ", " k", "é", "e\u0301", "k\u0000", "\u{1f511}"];
  await desk.resources.declare({ resource: "room", capacity: keys.length, key: "declare" });
  const ids = await Promise.all(keys.map(async (key) => placedId(await desk.placeHold({ ...ROOM, key }))));
  expect(new Set(ids).size).toBe(keys.length);
});

test("Grace: entropy guidance: the page asks for sixteen random bytes, or a name of the business's own", async () => {
  expect(await page("docs/reservations.md")).toContain("at least 16 random bytes");
  const { desk } = openDesk();
  expect(await desk.placeHold({ ...ROOM, key: randomBytes(16).toString("base64url") })).toMatchObject({
    ok: true,
  });
});
