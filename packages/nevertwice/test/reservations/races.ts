/** Races the three ends of a hold in the millisecond around its expiry. */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { type Answer, createReservations, type Reservations } from "../../src/reservations/index.ts";
import type { Stage } from "./histories.ts";
import { readRecords } from "./records.ts";

export interface Won {
  readonly confirmed: number;
  readonly released: number;
  readonly expired: number;
}

/** How many races run at the same time. */
const AT_ONCE = 50;
const ENDS = ["confirm", "release", "expire"] as const;
const AFTER = { confirm: "confirmed", release: "released", expire: "expired" } as const;
const DURATION_MS = 20_000;

/**
 * Three callers that share only the store request the three ends of each hold, in random order. Exactly one may succeed,
 * and the units are freed exactly once.
 */
export async function race(stage: Stage, races: number): Promise<Won> {
  const namespace = randomUUID();
  const { store } = stage;
  const rules = { store, namespace, windowMs: 600_000, actionMs: 60_000, purgeEveryMs: 0 };
  const callers = ENDS.map(() => createReservations(rules));
  const winners = new Map<string, (typeof ENDS)[number]>();
  for (let done = 0; done < races; done += AT_ONCE) {
    const beds = Array.from({ length: Math.min(AT_ONCE, races - done) }, (_, index) => `bed ${done + index}`);
    const ids = await Promise.all(beds.map((resource) => placed(callers[0] as Reservations, resource)));
    // Half of the races are in the last millisecond of the hold, the others in the first millisecond after it.
    const isOver = (done / AT_ONCE) % 2 === 1;
    await stage.advance(isOver ? DURATION_MS : DURATION_MS - 1);
    await Promise.all(
      ids.map(async (id) => {
        const ends = await endInEveryWay(callers, id);
        const [winner, ...others] = ENDS.filter((end) => ends[end].ok);
        expect(others, JSON.stringify(ends)).toEqual([]);
        for (const end of ENDS)
          if (end !== winner) expect(lateReasons(end, isOver)).toContain(toReason(ends[end]));
        if (winner !== undefined) winners.set(id, winner);
      }),
    );
  }
  const { commitments, resources, events } = await readRecords(store, namespace);
  for (const { id, state } of commitments) expect(AFTER[winners.get(id) ?? "confirm"]).toBe(state);
  const takes = new Map(commitments.map(({ resource, state }) => [resource, state === "confirmed" ? 1 : 0]));
  for (const { name, taken } of resources) expect([name, taken]).toEqual([name, takes.get(name)]);
  expect([commitments.length, winners.size, resources.length]).toEqual([races, races, races]);
  // For each hold, its placement, its end, and two refusals.
  expect(events).toHaveLength(4 * races);
  for (const caller of callers) await caller.close();
  const times = (end: string) => [...winners.values()].filter((winner) => winner === end).length;
  return { confirmed: times("confirm"), released: times("release"), expired: times("expire") };
}

async function placed(caller: Reservations, resource: string): Promise<string> {
  const answer = await caller.placeHold({
    resource,
    requester: "ann",
    durationMs: DURATION_MS,
    key: resource,
  });
  return answer.ok ? answer.id : expect.fail(answer.reason);
}

type Ends = Readonly<Record<(typeof ENDS)[number], Answer>>;

async function endInEveryWay(callers: readonly Reservations[], id: string): Promise<Ends> {
  const order = [...ENDS].sort(() => Math.random() - 0.5);
  const answers = await Promise.all(
    order.map(async (end, index) => [end, await callers[index]?.[end]({ id, key: `${end} ${id}` })] as const),
  );
  return Object.fromEntries(answers) as unknown as Ends;
}

/** A late caller gets not-held; reasons about time apply only while the commitment is held. */
function lateReasons(end: (typeof ENDS)[number], isOver: boolean): string[] {
  if (end === "confirm" && isOver) return ["not-held", "window-elapsed"];
  return end === "expire" && !isOver ? ["not-held", "window-not-elapsed"] : ["not-held"];
}

function toReason(answer: Answer): string {
  return answer.ok ? "ok" : answer.reason;
}
