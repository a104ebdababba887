/** Tests that whatever is done through the actions, in whatever order and time, the audit finds nothing. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Reservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { NAMESPACE, openReservations, WINDOW_MS } from "./audit-scene.ts";

interface Step {
  readonly what: number;
  readonly key: number;
  readonly which: number;
  readonly units: number;
  readonly ms: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.nat(13),
  key: fc.oneof(fc.nat(9), fc.nat(2_000)),
  which: fc.nat(5),
  units: fc.constantFrom(0, 1, 1, 1, 2, 3),
  ms: fc.constantFrom(0, 0, 0, 1, 1, 1, 500, 500, 20_000, 60_000, WINDOW_MS / 2),
});

/** Few keys and few names, so that they collide. */
async function take(
  desk: Reservations,
  ids: string[],
  { what, key: nth, which, units }: Step,
): Promise<unknown> {
  const key = `key-${nth}`;
  const resource = `resource-${which % 3}`;
  const id = ids.at(-1 - which) ?? "nobody";
  if (what <= 3) {
    const answer = await desk.placeHold({
      resource,
      requester: `who-${which % 2}`,
      durationMs: 60_000,
      units,
      key,
    });
    if (answer.ok) ids.push(answer.id);
    return answer;
  }
  if (what === 4) {
    const { ok } = await desk.confirm({ id, key });
    return ok && desk.giveBack({ id, key: `${key}-back` });
  }
  if (what === 5) return desk.confirm({ id, units, key });
  if (what === 6) return desk.release({ id, key });
  if (what === 7) return desk.expire({ id, key });
  if (what === 8) return desk.giveBack({ id, key });
  if (what === 9) return desk.resources.declare({ resource, capacity: units + which, key });
  if (what === 10) return desk.resources.adjust({ resource, capacity: units + which, key });
  if (what === 11) return desk.sweep();
  if (what === 12 && which < 3) return desk.resources.suspend({ resource, key });
  if (what === 13 && which < 2) return desk.resources.close({ resource, key });
  return desk.resources.resume({ resource, key });
}

test("a random history passes the audit in one round and in many, also with purged and reused keys", async () => {
  const kinds = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 120, size: "max" }), async (steps) => {
      const clock = manualClock();
      const store = memoryReservations({ clock });
      const desk = openReservations(store);
      const ids: string[] = [];
      for (const [index, one] of steps.entries()) {
        // Several at once, so that a transaction has more than one action.
        await Promise.all([take(desk, ids, one), take(desk, ids, { ...one, key: one.key + 7 })]);
        clock.advance(one.ms);
        if (index % 10 === 9) await store.purge(3);
      }
      const inOne = await desk.audit();
      const inMany = await desk.audit({ rowsAtOnce: 20, pageSize: 7 });
      expect(inOne.invariants.filter(({ ok }) => !ok)).toEqual([]);
      expect(inMany.invariants).toEqual(inOne.invariants);
      const { rows } = await store.events({ namespace: NAMESPACE, limit: 10_000 });
      for (const { kind } of rows) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }),
    { numRuns: 60, seed: 6 },
  );
  // The histories must not be empty.
  expect(kinds.size).toBe(11);
  expect(Math.min(...kinds.values())).toBeGreaterThan(10);
});
