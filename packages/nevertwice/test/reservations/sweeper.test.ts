/** Tests the sweeper: what it expires, what it passes over, what it counts, and the keys that are its own. */
import { describe, expect, test } from "vitest";
import { systemTimer } from "../../src/core/clock.ts";
import { createMaintenance } from "../../src/reservations/maintenance.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import type { ReservationStore, Rules } from "../../src/reservations/store.ts";
import { createSweeper } from "../../src/reservations/sweeper.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";
import { HOUR_MS, MINUTE_MS, NAMESPACE, openDesk, placedId, SECOND_MS } from "./desk.ts";

const ROOM = { requester: "ann", durationMs: MINUTE_MS };

/** Places holds that all expire at the same time. */
async function placed({ desk }: Pick<ReturnType<typeof openDesk>, "desk">, count: number): Promise<string[]> {
  const answers = await Promise.all(
    Array.from({ length: count }, (_, i) => desk.placeHold({ ...ROOM, resource: `room ${i}`, key: `k${i}` })),
  );
  return answers.map(placedId);
}

/** A store that refuses to expire these holds. */
function stuckOn(store: ReservationStore, ids: ReadonlySet<string>): ReservationStore {
  return {
    ...store,
    async transact(group, rules) {
      if (group.some(({ parameters }) => ids.has(String(parameters.id))))
        throw new Error("the row is damaged");
      return store.transact(group, rules);
    },
  };
}

describe("sweep", () => {
  test("expires a hold once its time is over again after the clock was set back", async () => {
    const scene = openDesk({ historyMs: HOUR_MS });
    const { clock, store, another } = scene;
    const [id] = (await placed(scene, 1)) as [string];
    clock.advance(MINUTE_MS);
    // The sweeper has read the hold as elapsed, and the clock is set back before it acts.
    const turning: ReservationStore = {
      ...store,
      async elapsed(...asked) {
        const ids = await store.elapsed(...asked);
        clock.advance(-SECOND_MS);
        return ids;
      },
    };
    expect(await another({ store: turning }).sweep()).toBe(0);
    const kept = (await store.keys({ namespace: NAMESPACE, limit: 9 })).rows;
    expect(kept.map(({ action }) => action)).toEqual(["placeHold"]);
    clock.advance(SECOND_MS);
    expect(await another().sweep()).toBe(1);
    expect(await scene.desk.get(id)).toMatchObject({ state: "expired" });
  });

  test("skips any number of holds that cannot be expired", async () => {
    const scene = openDesk();
    const ids = await placed(scene, 350);
    scene.clock.advance(MINUTE_MS);
    const order = await scene.store.elapsed(NAMESPACE, 350);
    const stuck = new Set(order.slice(0, 249));
    const desk = scene.another({ store: stuckOn(scene.store, stuck) });
    let expired = 0;
    for (let sweeps = 0; sweeps < 3; sweeps++) expired += await desk.sweep();
    expect(expired).toBe(ids.length - stuck.size);
    expect(new Set(await scene.store.elapsed(NAMESPACE, 350))).toEqual(stuck);
  });

  test("continues after holds that it could not expire, sweep after sweep, and returns to them", async () => {
    const scene = openDesk();
    await placed(scene, 60);
    scene.clock.advance(MINUTE_MS);
    const order = await scene.store.elapsed(NAMESPACE, 60);
    const stuck = new Set(order.slice(0, 50));
    const desk = scene.another({ store: stuckOn(scene.store, stuck) });
    // Ten pages of two: one sweep tries twenty holds.
    const counts: number[] = [];
    for (let sweeps = 0; sweeps < 7; sweeps++) counts.push(await desk.sweep(2));
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(10);
    stuck.clear();
    for (let sweeps = 0; sweeps < 30; sweeps++) await desk.sweep(2);
    expect(await scene.store.elapsed(NAMESPACE, 60)).toEqual([]);
  });

  test("counts each expiry once when several sweepers run at the same time", async () => {
    const scene = openDesk();
    await placed(scene, 40);
    scene.clock.advance(MINUTE_MS);
    const sweepers = Array.from({ length: 4 }, () => scene.another());
    const counts = await Promise.all(sweepers.map((desk) => desk.sweep()));
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(40);
  });

  test("counts an expiry whose reply was lost, and not one of another sweeper", async () => {
    const scene = openDesk();
    await placed(scene, 2);
    scene.clock.advance(MINUTE_MS);
    scene.store.plan("reply-lost", "never-sent");
    const first = scene.desk.sweep(1);
    expect(await first).toBe(1);
    const { store } = scene;
    const overtaken: ReservationStore = {
      ...store,
      async transact(group, rules) {
        await scene.another().sweep();
        return store.transact(group, rules);
      },
    };
    expect(await scene.another({ store: overtaken }).sweep()).toBe(0);
  });

  test("stops if the store does not answer, and tries again in the next round", async () => {
    const scene = openDesk();
    await placed(scene, 3);
    scene.clock.advance(MINUTE_MS);
    const open = scene.store.stall();
    await expect(scene.another({ actionMs: 5 }).sweep()).rejects.toThrow("did not answer within 5 ms");
    open();
    await scene.desk.sweep();
    expect(await scene.store.elapsed(NAMESPACE, 9)).toEqual([]);
  });

  test("continues after a hold whose transaction does not answer, and returns to it", async () => {
    const scene = openDesk();
    const ids = await placed(scene, 5);
    scene.clock.advance(MINUTE_MS);
    const order = await scene.store.elapsed(NAMESPACE, 5);
    const locked = new Set(order.slice(1, 2));
    const { store } = scene;
    const waiting: ReservationStore = {
      ...store,
      transact: (group, rules) =>
        group.some(({ parameters }) => locked.has(String(parameters.id)))
          ? new Promise<never>(() => {})
          : store.transact(group, rules),
    };
    const desk = scene.another({ store: waiting, actionMs: 5 });
    await expect(desk.sweep()).rejects.toThrow("did not answer within 5 ms");
    await desk.sweep().catch(() => {});
    expect(new Set(await store.elapsed(NAMESPACE, 5))).toEqual(locked);
    locked.clear();
    for (let sweeps = 0; sweeps < 2; sweeps++) await desk.sweep();
    for (const id of ids) expect(await scene.desk.get(id)).toMatchObject({ state: "expired" });
  });
});

test("a caller cannot use the reserved keys of the sweeper", async () => {
  const { desk, clock, store } = openDesk();
  const [id] = (await placed({ desk }, 1)) as [string];
  const answer = await desk.confirm({ id, key: `nevertwice:sweep:${id}` });
  expect(answer).toMatchObject({ ok: false, reason: "invalid-request" });
  expect(answer).toHaveProperty("detail", "keys that begin with nevertwice:sweep: are reserved");
  expect(await desk.expire({ id, key: "nevertwice:sweep:", scope: "tenant" })).toMatchObject({
    reason: "invalid-request",
  });
  clock.advance(MINUTE_MS);
  expect(await desk.sweep()).toBe(1);
  const { rows } = await store.keys({ namespace: NAMESPACE, commitment: id, limit: 9 });
  expect(rows.filter(({ action }) => action === "expire").map(({ key }) => key)).toEqual([
    expect.stringMatching(/^nevertwice:sweep:[0-9a-f-]{36}$/),
  ]);
});

test("one run of the sweep and the purge is bounded, even if the store always reports more", async () => {
  const world = createWorld();
  let sweeps = 0;
  let purges = 0;
  const store: ReservationStore = {
    ...memoryReservations({ clock: manualClock() }),
    async purge() {
      purges++;
      return { removed: 1, more: true };
    },
  };
  const sweeper = {
    async sweep(limit: number) {
      sweeps++;
      return limit;
    },
  };
  const maintenance = createMaintenance({
    store,
    sweeper,
    timer: world,
    sweepEveryMs: 1_000,
    purgeEveryMs: 1_000,
  });
  maintenance.start();
  let isOver = false;
  world.after(1_500, () => {
    isOver = true;
  });
  await world.run(() => isOver);
  maintenance.stop();
  expect([sweeps, purges]).toEqual([1_000, 1_000]);
});

test("a sweep tries a bounded number of holds, even if the store ignores the position", async () => {
  let asked = 0;
  const store: ReservationStore = {
    ...memoryReservations(),
    async elapsed(_, limit) {
      asked++;
      return Array.from({ length: limit }, (_each, i) => `same ${i}`);
    },
  };
  const rules: Rules = {
    namespace: NAMESPACE,
    windowMs: HOUR_MS,
    historyMs: 0,
    maxDurationMs: HOUR_MS,
    available: undefined,
  };
  const sweeper = createSweeper({ store, rules, timer: systemTimer, actionMs: 5_000 });
  expect(await sweeper.sweep(100)).toBe(0);
  expect(asked).toBeLessThanOrEqual(10);
});
