/** Writes down what expired, and removes keys that are past their time: in the background, in small steps. */
import type { Timer } from "../core/clock.ts";
import type { Actions } from "./actions.ts";
import type { ReservationStore } from "./ledger.ts";

const BITE = 100;

export interface Swept {
  readonly store: ReservationStore;
  readonly actions: Actions;
  readonly namespace: string;
}

/** Each expiry is a transaction of its own, under a key of its own: however many sweep, it is written once. */
export async function sweepOnce({ store, actions, namespace }: Swept, limit: number): Promise<number> {
  let expired = 0;
  for (const id of await store.elapsed(namespace, limit)) {
    const { ok } = await actions.expire({ id, key: `nevertwice:sweep:${id}` });
    if (ok) expired++;
  }
  return expired;
}

export interface SweepingOptions extends Swept {
  readonly timer: Timer;
  /** 0 for never. */
  readonly sweepEveryMs: number;
  readonly purgeEveryMs: number;
}

/** The answer ends it. Failures are dropped: what is past its time is so whether or not somebody wrote it down. */
export function startSweeping(options: SweepingOptions): () => void {
  const { store, timer, sweepEveryMs, purgeEveryMs } = options;
  const stops = [
    every(timer, sweepEveryMs, async () => (await sweepOnce(options, BITE)) === BITE),
    every(timer, purgeEveryMs, async () => (await store.purge(BITE)).more),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Does `step` again at once as long as it says that there is more. */
function every(timer: Timer, everyMs: number, step: () => Promise<boolean>): () => void {
  let isStopped = everyMs === 0;
  let cancel = () => {};
  async function run(): Promise<void> {
    try {
      while (!isStopped && (await step()));
    } catch {
      // The next time tries again.
    }
    arm();
  }
  function arm(): void {
    if (!isStopped) cancel = timer.after(everyMs, () => void run(), true);
  }
  arm();
  return () => {
    isStopped = true;
    cancel();
  };
}
