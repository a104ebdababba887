/** Random histories: few names, so that they collide; times that often stop exactly at an end; replayable by their seed. */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect } from "vitest";
import type { ActionName } from "../../src/reservations/action-request.ts";
import {
  type Answer,
  createReservations,
  type Keyed,
  type ReservationStore,
  type Reservations,
} from "../../src/reservations/index.ts";
import { type Answered, broken, INVARIANTS, type Invariant, type Moment } from "./invariants.ts";
import { after, type Call, elapsed, emptyModel, type Model, purged, type Terms } from "./model.ts";
import { NO_RECORDS, type Records, readRecords, seenIn, toExpected } from "./records.ts";

/** The unit of time: a hold lasts three of them, and a window six. */
const TICK_MS = 10_000;

/** A store with a manual clock. */
export interface Stage {
  readonly store: ReservationStore;
  now(): Promise<number>;
  advance(ms: number): Promise<void>;
}

/** A call before the ids of commitments are known: `nth` selects one of them. */
interface Wish {
  readonly action: ActionName;
  /** Undefined: a new key. */
  readonly key: string | undefined;
  readonly scope: string | undefined;
  readonly nth: number;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly caller: 0 | 1;
}

export type Step =
  | { readonly do: "call"; readonly wishes: readonly Wish[] }
  | { readonly do: "again"; readonly nth: number; readonly caller: 0 | 1 }
  | { readonly do: "advance"; readonly ms: number }
  | {
      readonly do: "to the end of";
      readonly what: "hold" | "key";
      readonly nth: number;
      readonly offset: number;
    }
  | { readonly do: "sweep" }
  | { readonly do: "purge" };

export interface Script {
  readonly terms: Terms;
  readonly steps: readonly Step[];
}

const caller = fc.constantFrom<0 | 1>(0, 1);
const resource = fc.constantFrom("bed", "seat", "stock");
const units = fc.option(fc.constantFrom(1, 1, 2, 3, 0), { nil: undefined });
const key = fc.oneof(
  { weight: 6, arbitrary: fc.constant(undefined) },
  { weight: 3, arbitrary: fc.constantFrom("k1", "k2", "k3") },
  { weight: 1, arbitrary: fc.constantFrom("", "é".repeat(129)) },
);

const PARAMETERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  placeHold: fc.record({
    resource: fc.oneof({ weight: 12, arbitrary: resource }, { weight: 1, arbitrary: fc.constant(" ") }),
    requester: fc.constantFrom("ann", "ben"),
    durationMs: fc.constantFrom(TICK_MS, 3 * TICK_MS, 3 * TICK_MS, 9 * TICK_MS, 0, 99 * TICK_MS),
    units,
  }),
  confirm: fc.record({ units }),
  release: fc.record({}),
  expire: fc.record({}),
  giveBack: fc.record({ units }),
  declare: fc.record({ resource, capacity: fc.constantFrom(0, 1, 2, 3, -1) }),
  adjust: fc.record({ resource, capacity: fc.constantFrom(0, 1, 2, 4) }),
  suspend: fc.record({ resource }),
  resume: fc.record({ resource }),
  close: fc.record({ resource }),
};

const WEIGHTS: Readonly<Record<string, number>> = {
  placeHold: 12,
  confirm: 6,
  release: 4,
  expire: 5,
  giveBack: 4,
  declare: 3,
  resume: 2,
};

const wish: fc.Arbitrary<Wish> = fc.oneof(
  ...Object.entries(PARAMETERS).map(([action, parameters]) => ({
    weight: WEIGHTS[action] ?? 1,
    arbitrary: fc.record({
      action: fc.constant(action as ActionName),
      key,
      scope: fc.constantFrom(undefined, undefined, "shop"),
      nth: fc.nat(9),
      parameters: parameters as fc.Arbitrary<Record<string, unknown>>,
      caller,
    }),
  })),
);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ do: fc.constant("call" as const), wishes: fc.tuple(wish) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("call" as const),
      wishes: fc.array(wish, { minLength: 2, maxLength: 4 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("again" as const), nth: fc.nat(60), caller }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("advance" as const),
      ms: fc.constantFrom(1, TICK_MS, 4 * TICK_MS),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("to the end of" as const),
      what: fc.constantFrom("hold" as const, "key" as const),
      nth: fc.nat(9),
      offset: fc.constantFrom(-1, 0, 0, 0, 1),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("sweep" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("purge" as const) }) },
);

const terms: fc.Arbitrary<Terms> = fc.record({
  windowMs: fc.constant(6 * TICK_MS),
  historyMs: fc.constantFrom(0, 0, 2 * TICK_MS),
  maxDurationMs: fc.constant(20 * TICK_MS),
});

export const script: fc.Arbitrary<Script> = fc.record({
  terms,
  steps: fc.array(step, { minLength: 1, maxLength: 30, size: "max" }),
});

/** A script in which the clock is set back now and then. */
export const scriptWithTurns: fc.Arbitrary<Script> = fc.record({
  terms,
  steps: fc.array(
    fc.oneof(
      { weight: 8, arbitrary: step },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant("advance" as const),
          ms: fc.constantFrom(-1, -TICK_MS, -5 * TICK_MS),
        }),
      },
    ),
    { minLength: 1, maxLength: 30, size: "max" },
  ),
});

/** How much was judged, so that an empty history does not count as a good one. */
export type Tally = Map<string, number>;

/** Runs a script in its own namespace, and judges every answer and all records after every step. */
export async function play(
  stage: Stage,
  { terms, steps }: Script,
  tally: Tally = new Map(),
  invariants: readonly Invariant[] = INVARIANTS,
): Promise<void> {
  const { store } = stage;
  const namespace = randomUUID();
  const callers = [0, 1].map(() =>
    createReservations({ store, namespace, ...terms, actionMs: 30_000, purgeEveryMs: 0 }),
  );
  const calls: Call[] = [];
  let model = emptyModel(terms);
  let before: Records = NO_RECORDS;
  for (const each of steps) {
    if (each.do === "advance" || each.do === "to the end of") {
      await stage.advance(each.do === "advance" ? each.ms : distance(model, each, await stage.now()));
      continue;
    }
    const at = await stage.now();
    const { answered, possible } = await take(stage, callers, each, { model, calls, at });
    // Only the sweeper can use its keys.
    if (each.do !== "sweep") calls.push(...answered.map(({ call }) => call));
    const records = await readRecords(store, namespace);
    const fitting = possible.find((one) => isDeepStrictEqual(toExpected(one), seenIn(records)));
    if (fitting === undefined) {
      expect(answered, "no order of these calls may be answered so").toSatisfy(() => possible.length > 0);
      expect(seenIn(records)).toEqual(toExpected(possible[0] as Model));
    }
    const moment: Moment = { terms, at, answered, before, after: records };
    expect(broken(moment, invariants)).toEqual([]);
    for (const { call, answer } of answered)
      count(tally, `${call.action}: ${answer.ok ? "ok" : answer.reason}`);
    count(tally, "moments");
    model = fitting as Model;
    before = records;
  }
  for (const reservations of callers) await reservations.close();
}

interface Scene {
  readonly model: Model;
  readonly calls: readonly Call[];
  readonly at: number;
}

async function take(
  { store }: Stage,
  callers: readonly Reservations[],
  each: Exclude<Step, { do: "advance" | "to the end of" }>,
  { model, calls, at }: Scene,
): Promise<{ answered: Answered[]; possible: Model[] }> {
  if (each.do === "purge") {
    while ((await store.purge(1_000)).more);
    return { answered: [], possible: [purged(model, at)] };
  }
  if (each.do === "sweep") {
    const over = elapsed(model, at);
    expect(await callers[0]?.sweep()).toBe(over.length);
    const answered = await Promise.all(
      over.map(async ({ id }) => ({
        call: {
          action: "expire",
          key: await keyThatEnded(callers[0] as Reservations, id),
          parameters: { id },
        } as const,
        answer: { ok: true } as const,
      })),
    );
    return { answered, possible: inSomeOrder(model, answered, at) };
  }
  const asked =
    each.do === "call"
      ? each.wishes.map((one) => ({ call: toCall(one, model), caller: one.caller }))
      : calls.length === 0
        ? []
        : [{ call: calls[each.nth % calls.length] as Call, caller: each.caller }];
  const answers = await Promise.all(
    asked.map(({ call, caller }) => ask(callers[caller] as Reservations, call)),
  );
  const answered = asked.map(({ call }, index) => ({ call, answer: answers[index] as Answer }));
  return { answered, possible: inSomeOrder(model, answered, at) };
}

async function keyThatEnded(reservations: Reservations, id: string): Promise<string> {
  return (await reservations.trace(id))?.endedBy?.record?.key ?? "none";
}

/** All possible results of concurrent calls: those of running them one after another, in any order. */
function inSomeOrder(model: Model, answered: readonly Answered[], at: number): Model[] {
  if (answered.length === 0) return [model];
  if (answered.length > 4)
    return answered.reduce<Model[]>(
      (models, { call, answer }) => models.flatMap((one) => after(one, call, at, answer)),
      [model],
    );
  return answered.flatMap(({ call, answer }, index) =>
    after(model, call, at, answer).flatMap((next) => inSomeOrder(next, answered.toSpliced(index, 1), at)),
  );
}

function toCall({ action, key = randomUUID(), scope, nth, parameters }: Wish, { holds }: Model): Call {
  const needsId = ["confirm", "release", "expire", "giveBack"].includes(action);
  const id = nth === 9 ? ["", "nobody"][holds.length % 2] : (holds.at(-1 - (nth % 5))?.id ?? "nobody");
  const given = Object.entries({ ...(needsId ? { id } : {}), ...parameters });
  const known = Object.fromEntries(given.filter(([, value]) => value !== undefined));
  return { action, key, ...(scope === undefined ? {} : { scope }), parameters: known };
}

function ask(reservations: Reservations, { action, key, scope, parameters }: Call): Promise<Answer> {
  const request = { key, ...(scope === undefined ? {} : { scope }), ...parameters };
  const doors = {
    ...reservations,
    ...reservations.resources,
    close: undefined,
    ...(action === "close" ? { close: reservations.resources.close } : {}),
  };
  return (doors[action] as (request: Keyed) => Promise<Answer>)(request);
}

/** Moves the clock to the end of a hold or window, or a millisecond before or after it; never back. */
function distance(
  { holds, keys }: Model,
  { what, nth, offset }: Extract<Step, { do: "to the end of" }>,
  now: number,
): number {
  const ends =
    what === "hold"
      ? holds.map(({ expiresAt }) => expiresAt)
      : [...keys.values()].map(({ windowEndsAt }) => windowEndsAt);
  const ahead = ends.filter((end) => end + offset > now);
  return ahead.length === 0 ? 0 : (ahead[nth % ahead.length] as number) + offset - now;
}

function count(tally: Tally, what: string): void {
  tally.set(what, (tally.get(what) ?? 0) + 1);
}
