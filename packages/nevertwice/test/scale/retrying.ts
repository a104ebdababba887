/** What the engine does about a lost reply, without the engine: the very same request, token and all, once more. */
import type { Store } from "../../src/core/store.ts";
import { type Fault, type FaultyMethod, faultyStore } from "../../src/testing/faulty-store.ts";
import { seededRandom } from "../../src/testing/random.ts";

/** The steps that may be repeated. A `forget` or `purge` that was applied answers otherwise the second time. */
const REPEATABLE = ["claim", "complete", "abandon", "renew", "read", "list"] as const;
const FAULTS: readonly Fault[] = ["refuse", "break-reply", "delay", "delay-reply"];
/** How likely a call meets a fault, and how often at most: the cases' deadlines are tens of milliseconds away. */
const FAULT_RATE = 0.5;
const MOST_FAULTS = 2;
const DELAY_MS = 5;

/**
 * The store behind a network that draws its faults from `seed`, with somebody before it who repeats what failed.
 * `onFault` is told of each fault.
 */
export function retrying(store: Store, seed: number, onFault: (fault: Fault) => void): Store {
  const faulty = faultyStore(store, { seed, delayMs: DELAY_MS });
  const random = seededRandom(seed);

  async function repeat<T>(method: FaultyMethod, call: () => Promise<T>): Promise<T> {
    for (let faults = 0; faults < MOST_FAULTS; faults++) {
      if (!random.chance(FAULT_RATE)) break;
      const fault = random.pick(FAULTS);
      onFault(fault);
      faulty.plan(method, fault);
      try {
        return await call();
      } catch (error) {
        if (!String(error).includes("faulty store")) throw error;
      }
    }
    return call();
  }

  const steps = REPEATABLE.flatMap((method) => {
    const call = faulty[method] as ((...args: unknown[]) => Promise<unknown>) | undefined;
    if (call === undefined) return [];
    return [[method, (...args: unknown[]) => repeat(method, () => call(...args))]];
  });
  return { ...faulty, ...Object.fromEntries(steps) };
}
