/**
 * Purges the records of one object when they have expired, by the object's alarm. An object has one alarm. Setting it is
 * billed as a written row, so it is set only where it would ring clearly too late.
 */
import type { Clock } from "../../core/clock.ts";
import type { StoreCall } from "../sqlite/calls.ts";
import { firstPurgeTime } from "../sqlite/record-row.ts";
import type { DurableObjectStorage } from "./bindings.ts";

/** Records removed at once: claims wait for no more than that. */
const BATCH = 500;
/** Between two batches, so that calls that have arrived in the meantime go first. */
const NEXT_BATCH_MS = 1_000;
/** Records that expire shortly after each other are purged together. */
const TOGETHER_MS = 600_000;

export interface PurgeAlarmOptions {
  readonly storage: DurableObjectStorage;
  readonly clock: Clock;
  /** Removes at most `limit` expired records; returns how many. */
  purge(limit: number): number;
  /** When the next record can be purged. */
  nextPurgeAt(): number | undefined;
}

export interface PurgeAlarm {
  /** Called after each call that may have written a record. */
  noticed(call: StoreCall): Promise<void>;
  rang(): Promise<void>;
}

export function createPurgeAlarm(options: PurgeAlarmOptions): PurgeAlarm {
  const { storage, clock, purge, nextPurgeAt } = options;
  /** By the system clock, as all alarms. Undefined until it was read. */
  let ringsAt: number | null | undefined;

  async function ring(inMs: number): Promise<void> {
    ringsAt = Date.now() + inMs;
    await storage.setAlarm(ringsAt);
  }

  async function ringFor(purgeAt: number): Promise<void> {
    ringsAt ??= await storage.getAlarm();
    const inMs = Math.max(purgeAt - clock.now(), 0) + TOGETHER_MS;
    if (ringsAt === null || ringsAt > Date.now() + inMs + TOGETHER_MS) await ring(inMs);
  }

  return {
    async noticed(call) {
      const purgeAt = expectedPurge(call, clock.now());
      // The step was taken, and its answer must not depend on the alarm. The next call tries again.
      if (purgeAt !== undefined)
        await ringFor(purgeAt).catch(() => {
          ringsAt = undefined;
        });
    },

    async rang() {
      ringsAt = null;
      if (purge(BATCH) === BATCH) return ring(NEXT_BATCH_MS);
      const next = nextPurgeAt();
      if (next !== undefined) await ring(Math.max(next - clock.now(), 0) + TOGETHER_MS);
    },
  };
}

/** When the record that this call may write can be purged. */
function expectedPurge(call: StoreCall, now: number): number | undefined {
  if (call[0] === "claim") return firstPurgeTime(now + call[3] + call[4], call[4]);
  return call[0] === "complete" ? firstPurgeTime(now + call[4], call[4]) : undefined;
}
