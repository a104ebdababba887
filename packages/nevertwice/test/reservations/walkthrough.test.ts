/** Tests the specification's walkthrough, step by step: a room, a flaky network, and a window of ten minutes. */
import { expect, test } from "vitest";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";

const REQUEST = { resource: "room_307", requester: "guest_g91", durationMs: 24 * HOUR_MS, key: "idem_x73a" };

test("Walkthrough: a client behind a flaky network reserves a hotel room", async () => {
  const { desk, store, clock } = openDesk({ windowMs: 10 * MINUTE_MS });
  const keyRows = async () => (await store.keys({ namespace: NAMESPACE, limit: 9 })).rows;

  // 1. The first call: delegated, recorded, answered.
  const first = await desk.placeHold(REQUEST);
  const id = placedId(first);
  expect(await desk.get(id)).toMatchObject({ state: "held", resource: "room_307", requester: "guest_g91" });
  expect(await keyRows()).toMatchObject([
    { key: "idem_x73a", action: "placeHold", answer: first, commitment: id },
  ]);

  // 2. The response is lost, and the client retries: the same id, and no second commitment.
  expect(await desk.placeHold(REQUEST)).toEqual(first);
  // 3. Twice more.
  expect(await desk.placeHold(REQUEST)).toEqual(first);
  expect(await desk.placeHold(REQUEST)).toEqual(first);
  expect((await desk.byResource("room_307")).rows).toHaveLength(1);
  expect(await desk.history(id)).toHaveLength(1);

  // 4. Two hours later, it is confirmed with its own key.
  clock.advance(2 * HOUR_MS);
  expect(await desk.confirm({ id, key: "idem_y22" })).toEqual({ ok: true });
  expect(await desk.get(id)).toMatchObject({ state: "confirmed" });

  // 5. The confirm is retried: the answer is ok, not not-held, and nothing changes.
  expect(await desk.confirm({ id, key: "idem_y22" })).toEqual({ ok: true });
  expect((await desk.history(id)).map(({ kind }) => kind)).toEqual(["placed", "confirmed"]);
  expect(await desk.confirm({ id, key: "idem_another" })).toMatchObject({ ok: false, reason: "not-held" });

  // 6. Eleven minutes later the first key counts as new: the request is decided again, and the room is taken.
  clock.advance(11 * MINUTE_MS);
  const late = await desk.placeHold(REQUEST);
  expect(late).toMatchObject({ ok: false, reason: "resource-unavailable" });
  expect(await desk.placeHold(REQUEST)).toEqual(late);
  expect((await keyRows()).find(({ key }) => key === "idem_x73a")).toMatchObject({
    answer: late,
    commitment: undefined,
  });
  expect((await desk.byResource("room_307")).rows).toMatchObject([{ id, state: "confirmed" }]);
});
