/** Background tasks: sweeps expired holds and purges keys past their time, on timers and in small steps. */
import { type Timer, weakly } from "../core/clock.ts";
import type { ReservationStore } from "./store.ts";
import type { Sweeper } from "./sweeper.ts";

/** How many holds or keys one step handles. */
const STEP = 100;
/** Ends a run even if the store has a long backlog. The next run continues. */
const MAX_STEPS = 1_000;

export interface MaintenanceOptions {
  readonly store: ReservationStore;
  readonly sweeper: Sweeper;
  readonly timer: Timer;
  /** 0 turns the sweep off. */
  readonly sweepEveryMs: number;
  /** 0 turns the purge off. */
  readonly purgeEveryMs: number;
}

export interface Maintenance {
  /** Starts the timers on the first call. Every method of reservations calls it: creating reservations starts no timer. */
  start(): void;
  stop(): void;
}

/** Failures are ignored: the next run tries again, and an expired hold is refused whether or not its expiry is recorded. */
export function createMaintenance(options: MaintenanceOptions): Maintenance {
  const { store, sweeper, timer, sweepEveryMs, purgeEveryMs } = options;
  const tasks = [
    createRepeatingTask(timer, sweepEveryMs, async () => (await sweeper.sweep(STEP)) === STEP),
    createRepeatingTask(timer, purgeEveryMs, async () => (await store.purge(STEP)).more),
  ];
  let isStarted = false;
  return {
    start() {
      if (isStarted) return;
      isStarted = true;
      for (const task of tasks) task.schedule();
    },
    stop() {
      for (const task of tasks) task.stop();
    },
  };
}

interface RepeatingTask {
  run(): Promise<void>;
  schedule(): void;
  stop(): void;
}

/** Runs `step` every `everyMs`, and again at once while it returns true (there is more to do), up to `MAX_STEPS`. */
function createRepeatingTask(timer: Timer, everyMs: number, step: () => Promise<boolean>): RepeatingTask {
  let isStopped = everyMs === 0;
  let cancel = () => {};
  const task: RepeatingTask = {
    async run() {
      try {
        for (let steps = 0; steps < MAX_STEPS && !isStopped; steps++) if (!(await step())) break;
      } catch {
        // The next run tries again.
      }
      task.schedule();
    },
    schedule() {
      if (!isStopped) cancel = timer.after(everyMs, weakly(task), true);
    },
    stop() {
      isStopped = true;
      cancel();
    },
  };
  return task;
}
