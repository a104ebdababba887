/** Tests that one request at a time acts under a key, on reservations and on guards. */
import { expect, test, vi } from "vitest";
import { crash, createScene, failure, held, REFUSE, tally } from "../functions/guard-scene.ts";
import { HOUR_MS, NAMESPACE, openDesk, placedId } from "./desk.ts";

const ROOM = { resource: "room", requester: "ann", durationMs: HOUR_MS };
const ORDER = { operation: "charge", key: "order-1" };

test("Grace: atomic first claim, one winner: of fifty at once under one key, one acts", async () => {
  const { desk, another, store } = openDesk();
  const desks = [desk, another(), another(), another(), another()];
  const answers = await Promise.all(
    desks.flatMap((one) => Array.from({ length: 10 }, () => one.placeHold({ ...ROOM, key: "k" }))),
  );
  expect(new Set(answers.map(placedId)).size).toBe(1);
  expect((await store.events({ namespace: NAMESPACE, limit: 9 })).rows).toHaveLength(1);
});

test("Grace: in-flight duplicate: wait then replay: the second waits for the first and gets its answer", async () => {
  const { desk, another, store } = openDesk();
  const letGo = store.stall();
  const first = desk.placeHold({ ...ROOM, key: "k" });
  const second = another().placeHold({ ...ROOM, key: "k" });
  const isAnswered = vi.fn();
  void second.then(isAnswered);
  await vi.waitFor(() => expect(store.transactions).toBe(2));
  expect(isAnswered).not.toHaveBeenCalled();
  letGo();
  expect(await second).toEqual(await first);
});

test("Grace: fencing token per attempt: each attempt has its own, and a later one's is higher", async () => {
  const scene = createScene();
  const fences: bigint[] = [];
  await crash(scene, ORDER, ({ fence }) => void fences.push(BigInt(fence)));
  await scene.guard.run(ORDER, async ({ fence }) => void fences.push(BigInt(fence)));
  expect(fences).toHaveLength(2);
  expect((fences[1] as bigint) > (fences[0] as bigint)).toBe(true);
});

test("Grace: late completion no-op: an attempt that was overtaken writes nothing", async () => {
  const { guard, another, clock } = createScene(REFUSE);
  const late = held<string>();
  const overtaken = guard.tryRun(ORDER, late.work);
  await late.isUnderWay;
  clock.advance(guard.policy.leaseMs);
  expect(await another().run(ORDER, async () => "the owner's")).toBe("the owner's");
  late.finish("the late one's");
  expect(await overtaken).toMatchObject({ status: "replayed", value: "the owner's" });
  expect((await guard.read(ORDER))?.outcome).toMatchObject({ value: "the owner's" });
});

test("Grace: late release no-op: an attempt that was overtaken frees nothing when it fails", async () => {
  const { guard, another, clock } = createScene(REFUSE);
  const [late, next] = [held<string>(), held<string>()];
  const overtaken = guard.tryRun(ORDER, () => late.work().then(() => Promise.reject(new Error("declined"))));
  await late.isUnderWay;
  clock.advance(guard.policy.leaseMs);
  const successor = another().run(ORDER, next.work);
  await next.isUnderWay;
  late.finish("");
  await overtaken.catch(() => {});
  expect(await guard.read(ORDER)).toMatchObject({ state: "pending", number: 2 });
  next.finish("charged");
  expect(await successor).toBe("charged");
});

test("Grace: single-winner takeover of stale claim: of ten that find it, one takes it over", async () => {
  const scene = createScene(REFUSE);
  await crash(scene, ORDER);
  const { work, finish } = held<string>();
  const charge = vi.fn(work);
  const calls = Array.from({ length: 10 }, () => scene.another().tryRun(ORDER, charge));
  await vi.waitFor(() => expect(charge).toHaveBeenCalled());
  finish("charged");
  expect(tally(await Promise.all(calls))).toEqual({ ran: 1, pending: 9 });
});

test("Grace: clock-skew margin on takeover: none is needed, since the store's time decides and no process's own", async () => {
  const { desk, clock } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  vi.useFakeTimers({ toFake: ["Date"], now: clock.now() + 24 * HOUR_MS });
  try {
    expect(await desk.expire({ id, key: "e" })).toMatchObject({ ok: false, reason: "window-not-elapsed" });
    expect(await desk.confirm({ id, key: "c" })).toEqual({ ok: true });
    expect(await desk.get(id)).toMatchObject({ endedAt: clock.now() });
  } finally {
    vi.useRealTimers();
  }
});

test("Grace: non-destructive peek: looking changes nothing and prolongs nothing", async () => {
  const { desk, store, clock } = openDesk();
  const id = placedId(await desk.placeHold({ ...ROOM, key: "k" }));
  const rows = async () => [
    await store.commitments({ namespace: NAMESPACE, limit: 9 }),
    await store.keys({ namespace: NAMESPACE, limit: 9 }),
    await store.events({ namespace: NAMESPACE, limit: 9 }),
  ];
  const before = await rows();
  clock.advance(2 * HOUR_MS);
  expect(await desk.get(id)).toMatchObject({ state: "held", isElapsed: true });
  await Promise.all([
    desk.listHeld(),
    desk.history(id),
    desk.byResource("room"),
    desk.byRequester("ann"),
    desk.trace(id),
  ]);
  expect(await rows()).toEqual(before);
});

test("Grace: distributed lock helper (owner, extend, blocking): one holder, who can hold on longer; others wait or leave", async () => {
  const { guard, another } = createScene();
  const { work, isUnderWay, finish } = held<string>();
  const first = guard.exclusive("till", async (lock) => {
    expect([lock.owned(), await lock.extend()]).toEqual([true, true]);
    return work();
  });
  await isUnderWay;
  await expect(another().exclusive("till", () => "in", { waitMs: 0 })).rejects.toEqual(failure("pending"));
  const waiting = another().exclusive("till", () => "then", { waitMs: 60_000 });
  finish("first");
  expect([await first, await waiting]).toEqual(["first", "then"]);
});
