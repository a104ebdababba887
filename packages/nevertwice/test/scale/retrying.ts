/** Repeats a request whose reply was lost, with the same token, as the engine does, but without the engine. */
import type { Store } from "../../src/core/store.ts";
import { type FaultyMethod, faultyStore, type StoreFault } from "../../src/testing/faulty-store.ts";
import { seededRandom } from "../../src/testing/random.ts";

/** The steps that may be repeated. A `forget` or `purge` that was applied gives another answer the second time. */
const REPEATABLE = ["claim", "complete", "abandon", "renew", "read", "list"] as const;
const FAULTS: readonly StoreFault[] = ["refuse", "break-reply", "delay", "delay-reply"];
/** A renewal that was applied twice counts twice in the history of its record. */
const RENEW_FAULTS: readonly StoreFault[] = ["refuse", "delay", "delay-reply"];
/** The probability of a fault per call, and the most faults per call. The deadlines of the cases are only tens of milliseconds. */
const FAULT_RATE = 0.5;
const MOST_FAULTS = 2;
const DELAY_MS = 5;

/**
 * Returns the store behind a network whose faults depend on `seed`, and repeats the calls that failed. `onFault` is called
 * for each fault.
 */
export function retrying(store: Store, seed: number, onFault: (fault: StoreFault) => void): Store {
  const faulty = faultyStore(store, { seed, delayMs: DELAY_MS });
  const random = seededRandom(seed);

  async function repeat<T>(method: FaultyMethod, call: () => Promise<T>): Promise<T> {
    for (let faults = 0; faults < MOST_FAULTS; faults++) {
      if (!random.chance(FAULT_RATE)) break;
      const fault = random.pick(method === "renew" ? RENEW_FAULTS : FAULTS);
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
