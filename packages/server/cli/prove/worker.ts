/**
 * One of the processes of `nevertwice prove`. In each round it calls the store about the keys of that round, and writes every
 * call to a file before it is sent, and every answer before it is used. It may be killed or paused at any time.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Store } from "nevertwice";
import { notesFile } from "./notes.ts";
import { seededDraws } from "./random.ts";
import { type HistoryNote, monotonicUs, type ProvedKey, recordStore } from "./recorded-store.ts";
import { createScript, type ScriptedCall } from "./script.ts";

export interface WorkerOptions {
  readonly url: string;
  /** The module whose `openStore` opens the store; default: that of the library. */
  readonly opener?: string | undefined;
  readonly folder: string;
  /** Begins its tokens, and names its files: different for each process. */
  readonly name: string;
  readonly seed: number;
  /** How many calls are in flight at once. */
  readonly lanes: number;
  readonly leaseMs: number;
  readonly retentionMs: number;
  readonly timeoutMs: number;
}

/** What the process is told to do. */
export interface RoundOrder {
  readonly round: number;
  readonly keys: readonly ProvedKey[];
  /** In microseconds of the monotonic clock. */
  readonly until: number;
  readonly mostCalls: number;
}

/** What it says. */
export type WorkerMessage =
  | { readonly kind: "ready" }
  | { readonly kind: "rested"; readonly round: number }
  | { readonly kind: "failed"; readonly code: string | undefined; readonly message: string };

/** For so long most lanes call about the same key. */
const HOT_US = 60_000;
const HOT_SHARE = 0.75;
/** After a call without an answer. */
const REST_MS = 25;
/** A lane rests after this share of its calls. */
const REST_SHARE = 0.2;

async function work(options: WorkerOptions, store: Store, order: RoundOrder): Promise<void> {
  const { folder, name, lanes, seed, timeoutMs } = options;
  const { round, until, mostCalls } = order;
  const file = openSync(notesFile(folder, round, name), "a");
  let isOpen = true;
  const note = (line: HistoryNote): void => {
    // A late answer of this round is of no use any more, and its file is about to be read.
    if (isOpen) writeSync(file, `${JSON.stringify(line)}\n`);
  };
  const recorded = recordStore(store, { note, timeoutMs });
  const lane = async (index: number): Promise<void> => {
    const draws = seededDraws(seed * 7919 + round * 104_729 + index);
    const { leaseMs, retentionMs } = options;
    const scripts = order.keys.map(() =>
      createScript(draws, { name: `${name}.${index}`, leaseMs, retentionMs }),
    );
    // Spreads the calls over the round, however fast the store is.
    const paceMs = ((until - monotonicUs()) / 1_000) * (lanes / mostCalls);
    while (monotonicUs() < until && recorded.calls < mostCalls) {
      const hot = Math.floor(monotonicUs() / HOT_US);
      const index = (draws.chance(HOT_SHARE) ? hot : draws.below(scripts.length)) % scripts.length;
      const { call, told } = (scripts[index] as () => ScriptedCall)();
      const startedAt = performance.now();
      const answer = await recorded.call(order.keys[index] as ProvedKey, call);
      told(answer);
      const spareMs = paceMs - (performance.now() - startedAt);
      if (answer === undefined) await sleep(REST_MS);
      // Seldom and long, so that calls come in bursts.
      else if (spareMs > 0 && draws.chance(REST_SHARE)) await sleep(spareMs / REST_SHARE);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)));
  isOpen = false;
  closeSync(file);
}

export async function runWorker(options: WorkerOptions): Promise<void> {
  const say = (message: WorkerMessage) => void process.send?.(message);
  try {
    const { openStore } = (await import(options.opener ?? "nevertwice/stores/open")) as {
      openStore(url: string, options: { migrate: boolean }): Promise<Store>;
    };
    const store = await openStore(options.url, { migrate: false });
    await store.read("0".repeat(64));
    process.on("message", (order: RoundOrder) => {
      work(options, store, order).then(
        () => say({ kind: "rested", round: order.round }),
        (error) => fail(error),
      );
    });
    say({ kind: "ready" });
  } catch (error) {
    fail(error);
  }

  function fail(error: unknown): void {
    const { code, message } = error as Error & { readonly code?: string };
    say({ kind: "failed", code, message });
  }
}
