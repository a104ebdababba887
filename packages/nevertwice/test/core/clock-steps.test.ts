/**
 * Tests clock steps on everything that runs in the background: the guard's purge, the sweeper and the purge of
 * reservations, the anti-flapping window, the blocks of a quota. However the wall clock is set, each of them (a)
 * removes nothing that is alive by the clock and (b) works again within one period without outside help. The tests of
 * each part check that its rounds are bounded.
 */
import { DatabaseSync } from "@photostructure/sqlite";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { createEngine } from "../../src/core/engine.ts";
import { checkedSubject } from "../../src/core/request.ts";
import type { Store } from "../../src/core/store.ts";
import { memoryWindow } from "../../src/core/window.ts";
import { createBudget } from "../../src/http/quota-budget.ts";
import { createReservations, type ReservationStore } from "../../src/reservations/index.ts";
import { createMaintenance } from "../../src/reservations/maintenance.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import type { Rules } from "../../src/reservations/store.ts";
import { createSweeper } from "../../src/reservations/sweeper.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";

const PERIOD_MS = 1_000;
const DAY_MS = 86_400_000;
const RUNS = { numRuns: 60, seed: 7 } as const;
const TIMEOUT_MS = 240_000;

/** Steps forward and back, small and large. */
const jump = fc.constantFrom(-30 * DAY_MS, -DAY_MS, -7_000, -1_500, -1, 1, 900, 20_000, DAY_MS, 30 * DAY_MS);
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant("jump" as const), ms: jump }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(300, 1_100, 5_000) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("work" as const),
      ms: fc.constantFrom(500, 4_000, 60_000, DAY_MS),
    }),
  },
);
const steps = fc.array(step, { minLength: 3, maxLength: 25, size: "max" });
type Steps = readonly { readonly do: "jump" | "wait" | "work"; readonly ms: number }[];

/** A timer that advances only on request, and a wall clock next to it that can be set. */
function createTime() {
  const world = createWorld();
  let setMs = 1_767_225_600_000;
  const clock: Clock = { now: () => world.now() + setMs };
  return {
    world,
    clock,
    jump(ms: number) {
      setMs += ms;
    },
    async wait(ms: number) {
      let isReached = false;
      world.after(ms, () => {
        isReached = true;
      });
      await world.run(() => isReached);
    },
  };
}

async function play(
  time: ReturnType<typeof createTime>,
  drawn: Steps,
  work: (ms: number, index: number) => Promise<void>,
): Promise<void> {
  for (const [index, { do: what, ms }] of drawn.entries())
    if (what === "jump") time.jump(ms);
    else if (what === "wait") await time.wait(ms);
    else await work(ms, index);
}

function newDatabase(): InstanceType<typeof DatabaseSync> {
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  return database;
}

const GUARDS: readonly (readonly [string, (clock: Clock) => Store])[] = [
  ["memory", (clock) => memoryStore({ clock })],
  ["SQLite", (clock) => sqliteStore({ database: newDatabase(), clock })],
];

describe.each(GUARDS)("the purge of a guard on %s, after any clock step", (_, open) => {
  test(
    "removes no record that still answers, and removes every other one within a period",
    async () => {
      await fc.assert(
        fc.asyncProperty(steps, async (drawn) => {
          const time = createTime();
          const inner = open(time.clock);
          // Lists of SQLite rest in real time, which does not pass here.
          const ids: string[] = [];
          const alive = async () => {
            const records = await Promise.all(ids.map((id) => inner.read(id)));
            return records.flatMap((record) => record ?? []);
          };
          const lost: string[] = [];
          const store: Store = {
            ...inner,
            async purge(limit, bound) {
              const before = await alive();
              const startedAt = time.clock.now();
              const report = await inner.purge(limit, bound);
              const after = new Set((await alive()).map(({ id }) => id));
              // The clock goes on meanwhile.
              const latest = Math.max(startedAt, time.clock.now());
              // The purge swallows errors, so losses are collected and checked at the end.
              for (const { id, keptUntil } of before) if (!after.has(id) && keptUntil > latest) lost.push(id);
              return report;
            },
          };
          const guard = createEngine(
            { store, namespace: "n", purgeEveryMs: PERIOD_MS },
            { timer: time.world, random: () => 0.5, newToken: () => crypto.randomUUID() },
          );
          const ends: number[] = [];
          await play(time, drawn, async (retentionMs, index) => {
            const subject = { operation: "o", key: `k${index}` };
            await guard.run({ ...subject, retentionMs }, async () => index);
            ids.push(checkedSubject(subject, "n").id);
            ends.push(time.clock.now() + retentionMs);
          });
          const at = time.clock.now();
          await time.wait(2 * PERIOD_MS);
          const late = ends.filter((end) => end > at && end <= time.clock.now()).length;
          expect((await inner.purge(100)).removed).toBeLessThanOrEqual(late);
          expect(lost).toEqual([]);
          void guard.close();
          await time.wait(1);
        }),
        RUNS,
      );
    },
    TIMEOUT_MS,
  );
});

const RESERVATIONS: readonly (readonly [string, (clock: Clock) => ReservationStore])[] = [
  ["memory", (clock) => memoryReservations({ clock })],
  ["SQLite", (clock) => sqliteReservations({ database: newDatabase(), clock })],
];

const RULES: Rules = {
  namespace: "n",
  windowMs: 10_000,
  historyMs: 5_000,
  maxDurationMs: 2 * DAY_MS,
  available: undefined,
};

describe.each(RESERVATIONS)(
  "the sweeper and the purge of reservations on %s, after any clock step",
  (_, open) => {
    test(
      "expire no hold early, remove no key that still answers, and leave nothing behind for longer than a period",
      async () => {
        await fc.assert(
          fc.asyncProperty(steps, async (drawn) => {
            const time = createTime();
            const inner = open(time.clock);
            const page = { namespace: RULES.namespace, limit: 1_000 };
            const lost: string[] = [];
            const store: ReservationStore = {
              ...inner,
              async purge(limit) {
                const now = time.clock.now();
                const before = (await inner.keys(page)).rows.filter(({ keptUntil }) => now < keptUntil);
                const report = await inner.purge(limit);
                const after = new Set((await inner.keys(page)).rows.map(({ id }) => id));
                // The purge swallows errors, so losses are collected and checked at the end.
                lost.push(...before.filter(({ id }) => !after.has(id)).map(({ key }) => key));
                return report;
              },
            };
            const desk = createReservations({ store, ...RULES, available: undefined, purgeEveryMs: 0 });
            const sweeper = createSweeper({ store, rules: RULES, timer: time.world, actionMs: 5_000 });
            const maintenance = createMaintenance({
              store,
              sweeper,
              timer: time.world,
              sweepEveryMs: PERIOD_MS,
              purgeEveryMs: PERIOD_MS,
            });
            maintenance.start();
            await play(time, drawn, async (durationMs, index) => {
              const hold = { resource: `r${index}`, requester: "ann", durationMs };
              const placed = await desk.placeHold({ ...hold, key: `k${index}` });
              expect(placed.ok).toBe(true);
            });
            const at = time.clock.now();
            await time.wait(2 * PERIOD_MS);
            maintenance.stop();
            for (const { state, expiresAt, endedAt } of (await inner.commitments(page)).rows)
              if (state === "held") expect(expiresAt).toBeGreaterThan(at);
              else expect(endedAt).toBeGreaterThanOrEqual(expiresAt);
            for (const { keptUntil } of (await inner.keys(page)).rows) expect(keptUntil).toBeGreaterThan(at);
            expect(lost).toEqual([]);
          }),
          RUNS,
        );
      },
      TIMEOUT_MS,
    );
  },
);

test("the anti-flapping window blocks a parameter for no longer than its own length, after any clock step", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(jump, { minLength: 1, maxLength: 10 }), async (jumps) => {
      const clock = manualClock();
      const window = memoryWindow(clock, 100);
      const change = { parameter: "p", value: 1, windowMs: 60_000, similarity: 0, maxChanges: 3 };
      const record = () => window.record({ ...change, token: "t" });
      for (const ms of jumps) {
        for (let i = 0; i < 3; i++) await record();
        expect(await record()).toMatchObject({ flapping: true });
        clock.advance(ms);
        // One call looks after the step; from then on the window has its usual length.
        await record();
        clock.advance(change.windowMs);
        expect(await record()).toMatchObject({ flapping: false, similar: 0 });
        await window.clear();
      }
    }),
    RUNS,
  );
});

test("an overspent quota is open again after one retention, however far the clock was turned back", async () => {
  await fc.assert(
    fc.asyncProperty(jump, async (ms) => {
      const clock = manualClock();
      const retentionMs = 60_000;
      const guard = createEngine({ store: memoryStore({ clock }), retentionMs, purgeEveryMs: 0 });
      const open = () => createBudget(guard, { name: "bytes", limit: 100, scope: "s" }, clock.now);
      const budget = open();
      expect(await budget.refill()).toBe(true);
      budget.spend(100_000);
      expect(budget.isOpen()).toBe(false);
      clock.advance(ms);
      clock.advance(retentionMs);
      // The quota is as open as to a process without debt: only the blocks that are taken keep it shut, not old debt.
      expect(await budget.refill()).toBe(await open().refill());
      await guard.close();
    }),
    RUNS,
  );
});
