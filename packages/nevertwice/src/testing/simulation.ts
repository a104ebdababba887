/**
 * The real engine over a store, under virtual time: many workers and keys, crashes, pauses past the lease, lost and
 * delayed replies, clock jumps both ways, outages. Every schedule is drawn from a number that replays it.
 */
import type { Attempt } from "../core/attempt.ts";
import type { Clock } from "../core/clock.ts";
import type { Store } from "../core/store.ts";
import { memoryStore } from "../stores/memory.ts";
import { seededRandom } from "./random.ts";
import { type Actor, type CallRecord, createActor, idOf, OPERATION, startCall } from "./simulation/actors.ts";
import { createReferee, type Referee, type Violation } from "./simulation/referee.ts";
import { drawScenario, LEASE_MS, type PlannedFault, type Scenario } from "./simulation/scenario.ts";
import { createWorld, type World } from "./simulation/world.ts";

export interface SimulateOptions {
  /** The first schedule's number; the others follow it. */
  readonly seed: number;
  /** How many schedules; default 1. */
  readonly schedules?: number;
  /** The store under test, on the clock it is handed; default the memory store. It must answer without real waiting. */
  readonly createStore?: (clock: Clock) => Store;
}

export interface SimulationFailure extends Violation {
  /** `simulate({ seed })` with this number fails in the same way. */
  readonly seed: number;
  readonly scenario: Scenario;
  /** What happened, step by step. */
  readonly story: readonly string[];
}

export interface SimulationReport {
  readonly schedules: number;
  readonly events: number;
  /** What happened how often: what never happened was not tested. */
  readonly counts: Readonly<Record<string, number>>;
  /** The first failure; later schedules were not run. */
  readonly failure: SimulationFailure | undefined;
}

/** Schedules share nothing, so many run side by side between two turns of the event loop. */
const SIDE_BY_SIDE = 64;
/** When the faults of a schedule end and everything may come to rest. */
const HEAL_AT_MS = 1_000;
/** More than the records of a schedule. */
const PURGE_LIMIT = 100;
/** One lease, and the margin by which a deadline may be off after a clock went back. */
const CLAIMABLE_WITHIN_MS = LEASE_MS + 1_000 + LEASE_MS;

export async function simulate(options: SimulateOptions): Promise<SimulationReport> {
  const { seed, schedules = 1, createStore = (clock) => memoryStore({ clock }) } = options;
  const counts: Record<string, number> = {};
  const failures: { seed: number; scenario: Scenario; violation: Violation }[] = [];
  let events = 0;
  let next = 0;

  async function lane(): Promise<void> {
    while (next < schedules && failures.length === 0) {
      const scheduleSeed = seed + next++;
      const result = await runSchedule(scheduleSeed, createStore);
      events += result.events;
      for (const [what, times] of Object.entries(result.referee.counts))
        counts[what] = (counts[what] ?? 0) + times;
      const { violation } = result.referee;
      if (violation !== undefined)
        failures.push({ seed: scheduleSeed, scenario: result.scenario, violation });
    }
  }
  await Promise.all(Array.from({ length: Math.min(SIDE_BY_SIDE, schedules) }, lane));
  // Those side by side may fail together; the lowest number is the same in every run.
  const first = failures.sort((a, b) => a.seed - b.seed)[0];
  if (first === undefined) return { schedules: next, events, counts, failure: undefined };
  const story: string[] = [];
  await runSchedule(first.seed, createStore, story);
  const { violation, ...where } = first;
  return { schedules: next, events, counts, failure: { ...violation, ...where, story } };
}

async function runSchedule(seed: number, createStore: (clock: Clock) => Store, story?: string[]) {
  const random = seededRandom(seed);
  const scenario = drawScenario(random);
  const world = createWorld();
  let jumpedMs = 1_700_000_000_000;
  const clock: Clock = { now: () => world.now() + jumpedMs };
  const store = createStore(clock);
  const referee = createReferee(world.now, story);
  const create = (name: string, isCalm: boolean) =>
    createActor({
      name,
      world,
      random,
      store,
      clock,
      referee,
      rates: isCalm ? {} : scenario.rates,
      delayMs: scenario.delayMs,
    });
  const actors = Array.from({ length: scenario.workers }, (_, i) => create(`w${i}`, false));

  const calls = planCalls(scenario, world, actors, referee);
  for (const fault of scenario.faults)
    world.after(fault.at, () =>
      strike(fault, scenario, world, actors, store, referee, clock.now, (byMs) => void (jumpedMs += byMs)),
    );
  world.after(HEAL_AT_MS, () => {
    for (const { network } of actors) network.setRates({});
  });

  const isOver = () => referee.violation !== undefined;
  let events = await world.run(isOver);
  if (!isOver()) {
    checkRest(calls, referee, actors);
    events += await probe(world, create("probe", true), referee, scenario, isOver);
  }
  return { scenario, referee, events };
}

function planCalls(
  scenario: Scenario,
  world: World,
  actors: readonly Actor[],
  referee: Referee,
): CallRecord[] {
  const calls: CallRecord[] = [];
  for (const [i, plan] of scenario.calls.entries()) {
    const actor = actors[plan.worker] as Actor;
    world.after(plan.at, () =>
      actor.process.arrive(() => {
        calls.push(startCall({ referee, scenario, run: `run ${i}` }, actor, plan));
      }),
    );
  }
  return calls;
}

function strike(
  fault: PlannedFault,
  scenario: Scenario,
  world: World,
  actors: readonly Actor[],
  store: Store,
  referee: Referee,
  now: () => number,
  jump: (byMs: number) => void,
): void {
  referee.tell(() => `fault: ${JSON.stringify(fault)}`);
  switch (fault.kind) {
    case "crash":
      actors[fault.worker]?.process.crash();
      break;
    case "close": {
      const actor = actors[fault.worker] as Actor;
      actor.process.arrive(() => {
        actor.isClosed = true;
        void actor.guard.close();
      });
      break;
    }
    case "pause":
      actors[fault.worker]?.process.pause(fault.lastsMs);
      break;
    case "clock-jump":
      jump(fault.byMs);
      break;
    case "outage":
      for (const { network } of actors) network.setRates(fault.rates);
      world.after(fault.lastsMs, () => {
        for (const { network } of actors) network.setRates(scenario.rates);
      });
      break;
    case "purge":
      void store.purge(PURGE_LIMIT);
      referee.purged(now());
  }
}

/** Nothing moves any more: everybody who lives was answered, and owes nothing. */
function checkRest(calls: readonly CallRecord[], referee: Referee, actors: readonly Actor[]): void {
  const living = new Set(
    actors.filter(({ process, isClosed }) => !process.isDead() && !isClosed).map(({ name }) => name),
  );
  for (const { actor, plan, isAnswered } of calls) {
    const isEndless = plan.work.lastsMs === Number.POSITIVE_INFINITY;
    if (living.has(actor.name) && !isAnswered && !isEndless)
      referee.fail("I8", "a caller was never answered");
  }
  referee.checkDebts((owner) => living.has(owner));
}

/** Soon after every key can be claimed, answers, or waits for a decision that is accepted. */
async function probe(
  world: World,
  actor: Actor,
  referee: Referee,
  scenario: Scenario,
  isOver: () => boolean,
): Promise<number> {
  world.after(0, () => {
    const subjects = new Map(scenario.calls.map(({ scope, key }) => [idOf(scope, key), { scope, key }]));
    for (const [id, { scope, key }] of subjects) void probeOne(actor, referee, id, scope, key);
  });
  return world.run(isOver);
}

async function probeOne(
  { guard }: Actor,
  referee: Referee,
  id: string,
  scope: string,
  key: string,
): Promise<void> {
  const subject = { operation: OPERATION, scope, key };
  const request = { ...subject, leaseMs: LEASE_MS, waitMs: CLAIMABLE_WITHIN_MS };
  const work = async (attempt: Attempt) => {
    const tenure = referee.started(id, attempt.fence);
    if (tenure !== undefined) tenure.work = "returned";
    return { run: "probe", subject: `${scope}/${key}` };
  };
  try {
    let result = await guard.tryRun(request, work);
    if (result.status === "unknown") {
      const isDecided = await guard.resolve({ ...subject, fence: result.fence }, { status: "not-done" });
      if (!isDecided) referee.fail("I8", "a held claim could not be decided");
      result = await guard.tryRun(request, work);
    }
    const isDone = result.status === "ran" || result.status === "replayed";
    if (!isDone) referee.fail("I8", `after everything came to rest a key answered ${result.status}`);
  } catch {
    // A remembered error is an answer too.
  }
}
