/** Tests the answers of reservations, and what is stored of them. */
import { expect, test, vi } from "vitest";
import { createScene } from "../functions/guard-scene.ts";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const ORDER = { operation: "charge", key: "order-1" };

test("Grace: remembers completion: what was done is kept under its key with what it was asked", async () => {
  const { desk, store } = openDesk();
  const answer = await desk.placeHold({ ...ROOM, key: "k" });
  expect((await store.keys({ namespace: NAMESPACE, limit: 9 })).rows).toMatchObject([
    { key: "k", action: "placeHold", parameters: ROOM, answer, commitment: placedId(answer) },
  ]);
});

test("Grace: replays the original result: the same id, though the hold has ended since", async () => {
  const { desk } = openDesk();
  const first = await desk.placeHold({ ...ROOM, key: "k" });
  await desk.release({ id: placedId(first), key: "r" });
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toEqual(first);
});

test("Grace: duplicate as typed error: a rejection is a value with one of a few reasons, and never thrown", async () => {
  const { desk } = openDesk();
  const first = await desk.placeHold({ ...ROOM, key: "k" });
  const answer = await desk.release({ id: placedId(first), key: "k" });
  expect(answer.ok ? "none" : answer.reason).toBe("token-collision");
});

test("Grace: request fingerprint: a digest of action and parameters is kept with the key", async () => {
  const { desk, store } = openDesk();
  await desk.placeHold({ ...ROOM, key: "k" });
  const [row] = (await store.keys({ namespace: NAMESPACE, limit: 9 })).rows;
  expect(row?.digest).toMatch(/^1:[0-9a-f]{64}$/);
});

test("Grace: fingerprint mismatch rejected: the same key for something else is a collision, and nothing happens", async () => {
  const { desk, store } = openDesk();
  await desk.placeHold({ ...ROOM, key: "k" });
  const answer = await desk.placeHold({ ...ROOM, resource: "hall", requester: "bob", key: "k" });
  expect(answer).toMatchObject({ ok: false, reason: "token-collision" });
  expect(answer).toHaveProperty("detail", expect.stringContaining("requester, resource"));
  expect((await store.events({ namespace: NAMESPACE, limit: 9 })).rows).toHaveLength(1);
});

test("Grace: canonical parameter serialisation: the order of names is no difference, and a type is one", async () => {
  const { desk } = openDesk();
  const first = await desk.placeHold({ ...ROOM, units: 1, key: "k" });
  expect(
    await desk.placeHold({ units: 1, durationMs: HOUR_MS, requester: "ann", resource: "room", key: "k" }),
  ).toEqual(first);
  expect(await desk.placeHold({ ...ROOM, key: "k" })).toEqual(first);
  const asText = { ...ROOM, units: "1" as unknown as number, key: "k" };
  expect(await desk.placeHold(asText)).toMatchObject({ reason: "token-collision" });
});

test("Grace: mismatch while in flight detected: it waits for the first, and collides", async () => {
  const { desk, another, store } = openDesk();
  const letGo = store.stall();
  const first = desk.placeHold({ ...ROOM, key: "k" });
  await vi.waitFor(() => expect(store.transactions).toBe(1));
  const other = another().placeHold({ ...ROOM, requester: "bob", key: "k" });
  letGo();
  expect(await first).toMatchObject({ ok: true });
  expect(await other).toMatchObject({ ok: false, reason: "token-collision" });
});

test("Grace: failure cached and replayed: who was refused stays refused under that key", async () => {
  const { desk } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "first" }));
  const refused = await desk.placeHold({ ...ROOM, requester: "bob", key: "late" });
  expect(refused).toMatchObject({ ok: false, reason: "resource-unavailable" });
  await desk.release({ id, key: "r" });
  expect(await desk.placeHold({ ...ROOM, requester: "bob", key: "late" })).toEqual(refused);
});

test("Grace: error text stored: the reason and its words are kept with the key", async () => {
  const { desk, store } = openDesk();
  const answer = await desk.confirm({ id: "nothing", key: "k" });
  const [row] = (await store.keys({ namespace: NAMESPACE, limit: 9 })).rows;
  expect(row?.answer).toEqual(answer);
  expect(row?.answer).toEqual({
    ok: false,
    reason: "not-known",
    detail: "no commitment has this id",
  });
});

test("Grace: outcome-unknown answer with candidates: who was left without a word finds what is held, and the key settles it", async () => {
  const { desk, another, store } = openDesk();
  store.plan("reply-lost", "refused", "refused");
  const unknown = await desk.placeHold({ ...ROOM, key: "k" });
  expect(unknown).toMatchObject({ ok: false, reason: "recording-failure" });
  const candidates = (await another().listHeld({ resource: "room", requester: "ann" })).rows;
  expect(candidates).toHaveLength(1);
  expect(await another().placeHold({ ...ROOM, key: "k" })).toEqual({ ok: true, id: candidates[0]?.id });
});

test("Grace: recording failure carries the answer: also after the store says of a later try that it wrote nothing", async () => {
  const { desk, store } = openDesk();
  store.plan("reply-lost", "refused", "refused");
  const answer = await desk.placeHold({ ...ROOM, key: "k" });
  const [held] = (await desk.listHeld()).rows;
  expect(answer).toMatchObject({ reason: "recording-failure", answer: { ok: true, id: held?.id } });
});

test("Grace: intent written before the act: for effects outside the database the claim comes first", async () => {
  const { guard, another } = createScene();
  const seen = await guard.run(ORDER, () => another().read(ORDER));
  expect(seen).toMatchObject({ ...ORDER, state: "pending" });
});

test("Grace: re-run only effect-free actions on recovery: after a lost reply every action is sent again, and happens once", async () => {
  const { desk, store, clock } = openDesk();
  const lost = <T>(act: () => Promise<T>) => {
    store.plan("reply-lost");
    return act();
  };
  const hold = (key: string) => lost(() => desk.placeHold({ ...ROOM, durationMs: MINUTE_MS, key }));
  const confirmed = placedId(await hold("a"));
  await lost(() => desk.confirm({ id: confirmed, key: "b" }));
  await lost(() => desk.giveBack({ id: confirmed, key: "c" }));
  const released = placedId(await hold("d"));
  await lost(() => desk.release({ id: released, key: "e" }));
  const expired = placedId(await hold("f"));
  clock.advance(MINUTE_MS);
  expect(await lost(() => desk.expire({ id: expired, key: "g" }))).toEqual({ ok: true });
  const kinds = async (id: string) => (await desk.history(id)).map(({ kind }) => kind);
  expect(await Promise.all([confirmed, released, expired].map(kinds))).toEqual([
    ["placed", "confirmed", "given-back"],
    ["placed", "released"],
    ["placed", "expired"],
  ]);
  expect((await desk.resource("room"))?.taken).toBe(0);
});
