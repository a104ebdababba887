/** What `nevertwice prove` does to its own processes and connections while they call the store. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Crew } from "./crew.ts";
import type { ClockBounds } from "./key-state.ts";
import type { FaultProxy } from "./proxy.ts";
import type { SeededDraws } from "./random.ts";
import { monotonicUs } from "./recorded-store.ts";

/** What a fault has at hand while a round runs. */
export interface FaultScene {
  readonly crew: Crew;
  readonly draws: SeededDraws;
  readonly leaseMs: number;
  /** When the round ends, in microseconds of the monotonic clock. */
  readonly until: number;
}

export interface FaultKind {
  readonly name: string;
  /** What is done, for the report. */
  readonly what: string;
  /** How the fault changes what is known about the clock of the store. */
  readonly bounds?: Partial<ClockBounds>;
  /** Strikes until the round ends, and leaves everything whole again. Resolves with how often it did. */
  strike(scene: FaultScene): Promise<number>;
}

/** Strikes again and again, after pauses of up to `everyMs`, until the round is almost over. */
export async function strikeAgain(
  { draws, until }: FaultScene,
  everyMs: number,
  strike: () => Promise<void>,
): Promise<number> {
  for (let struck = 0; ; struck++) {
    const waitMs = everyMs * (0.3 + 0.7 * (draws.below(1_000) / 1_000));
    if (monotonicUs() + waitMs * 1_000 > until) return struck;
    await sleep(waitMs);
    await strike();
  }
}

export const QUIET: FaultKind = { name: "quiet", what: "no fault", strike: async () => 0 };

const KILLS: FaultKind = {
  name: "kill",
  what: "a process is killed with SIGKILL, and another one takes its place",
  strike: (scene) => strikeAgain(scene, 400, () => scene.crew.kill(scene.draws)),
};

const PAUSES: FaultKind = {
  name: "pause",
  what: "a process is stopped with SIGSTOP for longer than its lease",
  strike: (scene) => strikeAgain(scene, 300, () => scene.crew.pause(scene.draws, scene.leaseMs * 1.5)),
};

/** The faults of processes, which every store meets. */
export const PROCESS_FAULTS: readonly FaultKind[] = [KILLS, PAUSES];

const LATENCY_MS = 40;
const DROPPED_MS = 250;

/** The faults of the network, for a store whose connections go through the proxy. */
export function networkFaults(proxy: FaultProxy): readonly FaultKind[] {
  const fault = (
    name: string,
    what: string,
    everyMs: number,
    strike: (draws: SeededDraws) => Promise<void>,
  ) => ({
    name,
    what,
    async strike(scene: FaultScene) {
      try {
        return await strikeAgain(scene, everyMs, () => strike(scene.draws));
      } finally {
        proxy.heal();
      }
    },
  });
  return [
    fault(
      "cut-reply",
      "a request reaches the store, and its connection is cut before the reply",
      120,
      async () => proxy.cutReply(),
    ),
    fault("cut-request", "a connection is cut before its request reaches the store", 250, async () =>
      proxy.cutRequest(),
    ),
    fault(
      "late-request",
      "a connection is cut, and its request reaches the store later",
      120,
      async (draws) => proxy.delayRequest(20 + draws.below(400)),
    ),
    fault("delay", "replies take longer", 200, async (draws) => {
      proxy.latency(draws.below(LATENCY_MS));
      await sleep(100);
      proxy.latency(0);
    }),
    fault("drop", "all bytes are dropped for a while, then the connections break", 600, async () => {
      proxy.hang();
      await sleep(DROPPED_MS);
      proxy.heal();
    }),
    fault("half-open", "open connections are forgotten, and neither side is told", 600, async () => {
      proxy.silence();
      await sleep(DROPPED_MS);
      proxy.heal();
    }),
    fault("refuse", "all connections are cut, and new ones refused for a while", 500, async () => {
      proxy.refuse();
      proxy.cutAll();
      await sleep(DROPPED_MS / 2);
      proxy.heal();
    }),
  ];
}
