/**
 * Simulates the real engine on a store under virtual time: many workers and keys, crashes, pauses past the lease, lost
 * and delayed replies, clock jumps in both directions, outages. The seed of a schedule replays it.
 */
import type { Clock } from "../core/clock.ts";
import type { ClaimAnswer, ClaimRequest, Store } from "../core/store.ts";
import { memoryStore } from "../stores/memory.ts";
import type { FaultRates } from "./faulty-store.ts";
import { seededRandom } from "./random.ts";
import {
  type Actor,
  type CallRecord,
  createActor,
  NAMESPACE,
  OPERATION,
  recordId,
  startCall,
} from "./simulation/actors.ts";
import type { Violation } from "./simulation/invariant.ts";
import { createReferee, type Referee } from "./simulation/referee.ts";
import { drawScenario, LEASE_MS, type PlannedFault, type Scenario } from "./simulation/scenario.ts";
import { createWorld, type World } from "./simulation/world.ts";

export interface SimulateOptions {
  /** The first schedule's number; the others follow it. */
  readonly seed: number;
  /** How many schedules; default 1. */
  readonly schedules?: number;
  /** Creates the store under test on the given clock; default the memory store. It must not wait in real time. */
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
  /** How often each kind of event happened. What never happened was not tested. */
  readonly counts: Readonly<Record<string, number>>;
  /** The first failure; later schedules were not run. */
  readonly failure: SimulationFailure | undefined;
}

/** Schedules share nothing, so many run interleaved in one turn of the event loop. */
const SIDE_BY_SIDE = 32;
const CLOCK_START_MS = 1_700_000_000_000;
/** When the faults of a schedule end, so that every call can finish. */
const HEAL_AT_MS = 1_000;
/** More than the records of a schedule. */
const PURGE_LIMIT = 100;
/** One lease, and the margin by which a deadline may be off after a clock went back. */
const CLAIMABLE_AFTER_MS = LEASE_MS + 1_000;
const PROBE_TERMS = { leaseMs: LEASE_MS, retentionMs: 1, hold: false };

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
  // Several schedules may fail together. The lowest seed is the same in every run.
  const first = failures.sort((a, b) => a.seed - b.seed)[0];
  if (first === undefined) return { schedules: next, events, counts, failure: undefined };
  const story: string[] = [];
  await runSchedule(first.seed, createStore, story);
  const { violation, ...where } = first;
  return { schedules: next, events, counts, failure: { ...violation, ...where, story } };
}

/** The parts of a running schedule. */
interface ScheduleStage {
  readonly scenario: Scenario;
  readonly world: World;
  readonly store: Store;
  /** The store's clock, and how it is moved. */
  readonly clock: Clock;
  readonly jump: (byMs: number) => void;
  readonly referee: Referee;
  readonly actors: readonly Actor[];
}

function setStage(seed: number, createStore: (clock: Clock) => Store, story?: string[]): ScheduleStage {
  const random = seededRandom(seed);
  const scenario = drawScenario(random);
  const world = createWorld();
  let startsAt = CLOCK_START_MS;
  const clock: Clock = { now: () => world.now() + startsAt };
  const store = createStore(clock);
  const referee = createReferee(world.now, story);
  const { rates, delayMs, directShare } = scenario;
  const unseen = { steps: 0 };
  const shared = { world, random, store, clock, referee, rates, delayMs, directShare, unseen };
  return {
    scenario,
    world,
    store,
    clock,
    jump(byMs) {
      startsAt += byMs;
    },
    referee,
    actors: Array.from({ length: scenario.workers }, (_, i) => createActor({ ...shared, name: `w${i}` })),
  };
}

async function runSchedule(seed: number, createStore: (clock: Clock) => Store, story?: string[]) {
  const stage = setStage(seed, createStore, story);
  const { scenario, world, referee, actors } = stage;
  const calls = planCalls(stage);
  for (const fault of scenario.faults) world.after(fault.at, () => strike(stage, fault));
  world.after(HEAL_AT_MS, () => setRates(actors, {}));
  const isOver = () => referee.violation !== undefined;
  let events = await world.run(isOver);
  if (!isOver()) {
    checkRest(calls, referee, actors);
    events += await probe(stage, isOver);
  }
  return { scenario, referee, events };
}

function planCalls({ scenario, world, actors, referee }: ScheduleStage): CallRecord[] {
  const calls: CallRecord[] = [];
  for (const [i, plan] of scenario.calls.entries()) {
    const actor = actors[plan.worker] as Actor;
    const start = () => calls.push(startCall({ referee, scenario, run: `run ${i}` }, actor, plan));
    world.after(plan.at, () => actor.process.arrive(start));
  }
  return calls;
}

function setRates(actors: readonly Actor[], rates: FaultRates): void {
  for (const { network } of actors) network.setRates(rates);
}

function strike(
  { scenario, world, actors, store, clock, referee, jump }: ScheduleStage,
  fault: PlannedFault,
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
      setRates(actors, fault.rates);
      world.after(fault.lastsMs, () => setRates(actors, scenario.rates));
      break;
    case "purge":
      void store.purge(PURGE_LIMIT);
      referee.purged(clock.now());
  }
}

/** At the end every caller of a living process has an answer, and no process has unsettled claims. */
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

/** One lease later every key can be claimed, answers with its outcome, or accepts a decision. */
async function probe(stage: ScheduleStage, isOver: () => boolean): Promise<number> {
  const { world, scenario } = stage;
  const subjects = new Map(scenario.calls.map(({ scope, key }) => [recordId(scope, key), { scope, key }]));
  for (const [id, { scope, key }] of subjects) {
    const parts = { namespace: NAMESPACE, scope, operation: OPERATION, key };
    const claim = (token: string, takeover?: number) => ({ ...PROBE_TERMS, id, parts, token, takeover });
    // The first claim shortens a deadline that a clock jump has moved too far away.
    world.after(0, () => void ask(stage, claim("probe.1")));
    world.after(CLAIMABLE_AFTER_MS, () => void probeOne(stage, claim));
  }
  return world.run(isOver);
}

async function probeOne(
  stage: ScheduleStage,
  claim: (token: string, takeover?: number) => ClaimRequest,
): Promise<void> {
  const answer = await ask(stage, claim("probe.2"));
  if (answer.status === "pending") stage.referee.fail("I8", "a key whose lease has ended is still pending");
  if (answer.status !== "unknown") return;
  const decided = await ask(stage, claim("probe.3", answer.fence));
  if (decided.status !== "new") stage.referee.fail("I8", "a held claim could not be decided");
}

async function ask({ store, clock, referee }: ScheduleStage, request: ClaimRequest): Promise<ClaimAnswer> {
  const now = clock.now();
  const answer = await store.claim(request);
  referee.claimed("probe", request, answer, now);
  return answer;
}
