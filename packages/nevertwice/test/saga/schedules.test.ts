/**
 * Tests sagas under schedules that are drawn from a seed: processes that die, stall or lose the store at any call of it and in
 * any effect, several at a time, with undos that fail and operators that decide. All of it in virtual time.
 */
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/core/engine.ts";
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import { saga as realSaga, type SagaResult } from "../../src/saga/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { createWorld } from "../../src/testing/simulation/world.ts";
import { sagaProblems } from "../scale/saga-referee.ts";
import { IS_FULL } from "../scale/sizes.ts";
import { type SagaNote, sagaSteps } from "../scale/workers/saga-steps.js";
import { PLANTED_BUGS, plant } from "./planted.ts";

const SCHEDULES = IS_FULL ? 100_000 : 600;
/** A planted bug must be found within these. */
const SCHEDULES_PER_BUG = 200;
const LEASE_MS = 1_000;
const MAX_ROUNDS = 60;
const subject = { operation: "order", key: "order-1" };

interface Report {
  readonly end: string;
  readonly problems: readonly string[];
  readonly died: number;
  readonly stalled: number;
  readonly lost: number;
  readonly parked: number;
}

/** Runs one saga to its end, through processes that die and stall. */
async function runSchedule(saga: typeof realSaga, seed: number): Promise<Report> {
  const random = seededRandom(seed);
  const world = createWorld();
  const store = memoryStore({ clock: { now: () => world.now() + 1_700_000_000_000 } });
  const notes: SagaNote[] = [];
  const count = random.between(1, 4);
  const failsAt = random.chance(0.7) ? random.between(0, count - 1) : -1;
  const broken = new Set<string>();
  if (random.chance(0.3)) broken.add(`step ${random.between(0, Math.max(0, failsAt))}`);
  const counts = { died: 0, stalled: 0, lost: 0, parked: 0 };
  let tokens = 0;

  /** A process with a fate: it dies, stalls or loses the store for some calls when it reaches its n-th point. */
  function start(fate: "none" | "die" | "stall" | "outage") {
    const at = random.between(1, 30);
    const outageEnd = at + random.between(1, 40);
    /** The call is lost before the store gets it, or its answer is. */
    const loseCall = () => {
      if (fate !== "outage" || points < at || points > outageEnd || !random.chance(0.6)) return;
      counts.lost++;
      throw new Error("the store cannot be reached");
    };
    let points = 0;
    const process = {
      isOver: false,
      result: undefined as SagaResult | undefined,
      thrown: undefined as unknown,
    };
    async function reach(): Promise<void> {
      if (++points === at && fate === "die") {
        counts.died++;
        process.isOver = true;
      }
      if (process.isOver) await new Promise(() => {});
      if (points === at && fate === "stall") {
        counts.stalled++;
        await new Promise<void>((resolve) => void world.after(3 * LEASE_MS, resolve));
      }
    }
    const gated: Store = { ...store };
    for (const method of ["claim", "complete", "abandon", "renew", "keepStep"] as const) {
      const call = store[method]?.bind(store) as (request: unknown) => Promise<unknown>;
      Object.assign(gated, {
        [method]: async (request: unknown) => {
          await reach();
          loseCall();
          const answer = await call(request);
          await reach();
          loseCall();
          return answer;
        },
      });
    }
    const guard = createEngine(
      { store: gated, leaseMs: LEASE_MS, waitMs: 200, storeTimeoutMs: 500, purgeEveryMs: 0 },
      { timer: world, random: random.next, newToken: () => `token-${tokens++}` },
    );
    const steps = sagaSteps(count, {
      write: (note) => notes.push(note),
      kept: async () => (await guard.read(subject))?.steps?.map(({ name }) => name) ?? [],
      fails: (direction, step) => (direction === "run" ? step === `step ${failsAt}` : broken.has(step)),
      async reach() {
        await reach();
        if (fate !== "none" && random.chance(0.05))
          throw new NevertwiceError("pending", "another guard is busy");
      },
    });
    const ended = saga(guard, { ...subject, undoRetry: { max: 0 } }, steps);
    ended
      .then(
        (result) => {
          process.result = result;
        },
        (thrown: unknown) => {
          process.thrown = thrown;
        },
      )
      .finally(() => {
        process.isOver = true;
      });
    return process;
  }

  const operator = createEngine(
    { store, purgeEveryMs: 0 },
    { timer: world, random: random.next, newToken: () => `operator-${tokens++}` },
  );
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const isCalm = round > 20;
    const fates = isCalm ? (["none"] as const) : (["none", "die", "stall", "outage"] as const);
    const processes = Array.from({ length: isCalm ? 1 : random.between(1, 3) }, () =>
      start(random.pick(fates)),
    );
    await world.run(() => processes.every(({ isOver }) => isOver));
    for (const { thrown, result } of processes) {
      const problem = thrown === undefined ? [] : [`a call threw ${String(thrown)}`];
      const end = result?.status ?? "";
      if (problem.length > 0 || end === "done" || end === "undone")
        return { end, problems: [...problem, ...sagaProblems(notes, count, end)], ...counts };
      if (result?.status !== "parked") continue;
      counts.parked++;
      if (random.chance(0.3)) return { end, problems: sagaProblems(notes, count, end), ...counts };
      broken.clear();
      await operator.resolve({ ...subject, fence: result.fence }, { status: "not-done" });
    }
    // A process that died leaves its lease behind.
    let isReached = false;
    world.after(2 * LEASE_MS, () => {
      isReached = true;
    });
    await world.run(() => isReached);
  }
  return { end: "never", problems: ["the saga never ended"], ...counts };
}

test(`every saga ends done, undone or parked in ${SCHEDULES} schedules, and no effect is out of order`, {
  timeout: 3_600_000,
}, async () => {
  const total: Record<string, number> = {};
  for (let seed = 1; seed <= SCHEDULES; seed++) {
    const { end, problems, ...counts } = await runSchedule(realSaga, seed);
    expect(problems, `seed ${seed}`).toEqual([]);
    for (const [name, value] of [[end, 1], ...Object.entries(counts)] as [string, number][])
      total[name] = (total[name] ?? 0) + value;
  }
  // Else their passing would mean little.
  for (const name of ["done", "undone", "parked", "died", "stalled", "lost"])
    expect(total[name], name).toBeGreaterThan(50);
});

describe("a planted bug is found", () => {
  test.each(PLANTED_BUGS)("$name", async (bug) => {
    const saga = await plant(bug);
    for (let seed = 1; seed <= SCHEDULES_PER_BUG; seed++)
      if ((await runSchedule(saga, seed)).problems.length > 0) return;
    expect.unreachable(`${SCHEDULES_PER_BUG} schedules did not find it`);
  });
});
