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
import { createJudgedClaims } from "./simulation/judged-claims.ts";
import { createReferee, type Referee } from "./simulation/referee.ts";
import { drawScenario, LEASE_MS, type PlannedFault, type Scenario } from "./simulation/scenario.ts";
import { createWorld, type World } from "./simulation/world.ts";

/** Options of `simulate`. */
export interface SimulateOptions {
  /** The first schedule's number; the others follow it. */
  readonly seed: number;
  /** How many schedules; default 1. */
  readonly schedules?: number;
  /** Creates the store under test on the given clock; default the memory store. It must not wait in real time. */
  readonly createStore?: (clock: Clock) => Store;
  /** For a store without a clock of its own; then `createStore` is not used. */
  readonly clients?: SimulatedClients;
}

/** A store on which every process has a client that judges by the clocks of its machine. */
export interface SimulatedClients {
  /**
   * Called for each schedule: the returned function creates the clients of its processes. `clock` is the wall clock of the
   * process, which is wrong and jumps; `monotonicClock` only goes on.
   */
  create(): (clocks: { readonly clock: Clock; readonly monotonicClock: Clock }) => Store;
  /**
   * How far the wall clocks may differ. The store keeps its records this much longer than requested. It must be longer than
   * a schedule, whose records then never expire: a schedule shows that leases do not depend on the wall clocks.
   */
  readonly clockSkewMs: number;
}

/** A schedule in which a guarantee was broken. */
export interface SimulationFailure extends Violation {
  /** `simulate({ seed })` with this number fails in the same way. */
  readonly seed: number;
  /** The clients, calls and faults of the schedule. */
  readonly scenario: Scenario;
  /** What happened, step by step. */
  readonly story: readonly string[];
}

/** What was simulated. */
export interface SimulationReport {
  /** How many schedules. */
  readonly schedules: number;
  /** How many events happened in them. */
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
/** Any number: it only keeps the random numbers apart from those of the schedule. */
const SHARING_SEED = 0x5eed;
const PROBE_TERMS = { leaseMs: LEASE_MS, retentionMs: 1, hold: false };

/**
 * Runs the engine under virtual time with random clients, crashes and lost messages, and checks every
 * guarantee after each event. The same seed gives the same schedule.
 * @example
 * ```ts
 * import { simulate } from "nevertwice/testing";
 *
 * const { schedules, failure } = await simulate({ seed: 1, schedules: 20 });
 * console.log(schedules, failure); // 20 undefined
 * ```
 */
export async function simulate(options: SimulateOptions): Promise<SimulationReport> {
  const { seed, schedules = 1 } = options;
  const counts: Record<string, number> = {};
  const failures: { seed: number; scenario: Scenario; violation: Violation }[] = [];
  let events = 0;
  let next = 0;

  async function lane(): Promise<void> {
    while (next < schedules && failures.length === 0) {
      const scheduleSeed = seed + next++;
      const result = await runSchedule(scheduleSeed, options);
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
  await runSchedule(first.seed, options, story);
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

type StoreOptions = Pick<SimulateOptions, "createStore" | "clients">;

function setStage(seed: number, options: StoreOptions, story?: string[]): ScheduleStage {
  const random = seededRandom(seed);
  const scenario = drawScenario(random, seededRandom(seed ^ SHARING_SEED));
  const world = createWorld();
  const { clients } = options;
  const { clock, jump, createClient } = clients
    ? separateClocks(world, clients, seed)
    : oneClock(world, options.createStore);
  const referee = createReferee(world.now, story, clients?.clockSkewMs);
  const { rates, delayMs, directShare, groupMs: longMs } = scenario;
  const groupMs = longMs === undefined ? undefined : () => (world.now() < HEAL_AT_MS ? longMs : 0);
  const unseen = { steps: 0 };
  const judgedClaims = createJudgedClaims(referee);
  const shared = {
    world,
    random,
    clock,
    referee,
    rates,
    delayMs,
    directShare,
    groupMs,
    judgedClaims,
    unseen,
  };
  return {
    scenario,
    world,
    store: createClient(),
    clock,
    jump,
    referee,
    actors: Array.from({ length: scenario.workers }, (_, i) =>
      createActor({ ...shared, store: createClient(), name: `w${i}` }),
    ),
  };
}

/** How the store under test tells the time. */
interface StoreTime {
  /** The clock by which the referee judges. */
  readonly clock: Clock;
  readonly jump: (byMs: number) => void;
  /** The store of one more process. */
  readonly createClient: () => Store;
}

function oneClock(world: World, createStore = (clock: Clock): Store => memoryStore({ clock })): StoreTime {
  let startsAt = CLOCK_START_MS;
  const clock: Clock = { now: () => world.now() + startsAt };
  const store = createStore(clock);
  return {
    clock,
    jump(byMs) {
      startsAt += byMs;
    },
    createClient: () => store,
  };
}

/** Every process has a wall clock that is wrong from the start. A jump moves one of them after the other. */
function separateClocks(world: World, clients: SimulatedClients, seed: number): StoreTime {
  // Random numbers of its own, so that a seed draws the same scenario for every store.
  const random = seededRandom(~seed);
  const create = clients.create();
  const offsets: number[] = [];
  let jumps = 0;
  return {
    clock: { now: () => world.now() + CLOCK_START_MS },
    jump(byMs) {
      const index = jumps++ % offsets.length;
      offsets[index] = (offsets[index] ?? 0) + byMs;
    },
    createClient() {
      const index = offsets.push(Math.floor((random.next() - 0.5) * (clients.clockSkewMs / 4))) - 1;
      const clock = { now: () => world.now() + CLOCK_START_MS + (offsets[index] ?? 0) };
      return create({ clock, monotonicClock: { now: world.now } });
    },
  };
}

async function runSchedule(seed: number, options: StoreOptions, story?: string[]) {
  const stage = setStage(seed, options, story);
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
