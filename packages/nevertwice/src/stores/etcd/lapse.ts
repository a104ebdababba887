/**
 * Judges when the lease of a claim has ended. etcd has no clock that a transaction could read, and the clocks of the callers
 * may differ by any amount. So no time in a record decides: this process must have seen one and the same lease of the record
 * for as long as that lease lasts, on its own monotonic clock. Each renewal writes another lease, and a takeover compares the
 * revision of the record, so a claim that was renewed in the meantime is never taken over.
 *
 *   owner       claim sent ── committed ─────────────── its lease ends, at the latest here
 *   challenger                    first seen ────────────────────────── one lease later: compare and set
 *                                 counted from the reply, so never earlier than the claim was sent
 */
import type { Kept } from "../../core/record.ts";
import { leaseName, type StoredRecord } from "./records.ts";

/** How many leases are remembered. One that is forgotten counts anew when it is seen again: its key is free later. */
const MAX_SEEN = 100_000;

interface SeenLease {
  readonly lease: string;
  readonly since: number;
}

export interface LeaseWatch {
  /** Notes that etcd had this lease at the monotonic time `at`, or that the record with this id has none. */
  see(id: string, stored: StoredRecord | undefined, at: number): void;
  /**
   * The record as it stands at the monotonic time `at` and the wall-clock time `now`: a pending record has the end of its
   * lease on the caller's clock, as far as this process can know it.
   */
  judge(stored: StoredRecord, at: number, now: number): Kept;
}

export function createLeaseWatch(): LeaseWatch {
  const seen = new Map<string, SeenLease>();

  function leftMs(stored: StoredRecord, at: number): number {
    const { record } = stored;
    const known = seen.get(record.id);
    if (known?.lease !== leaseName(stored)) return record.leaseMs;
    return Math.max(0, record.leaseMs - (at - known.since));
  }

  return {
    see(id, stored, at) {
      if (stored === undefined || stored.record.state !== "pending") {
        seen.delete(id);
        return;
      }
      const lease = leaseName(stored);
      if (seen.get(id)?.lease === lease) return;
      seen.delete(id);
      seen.set(id, { lease, since: at });
      if (seen.size > MAX_SEEN) seen.delete(seen.keys().next().value as string);
    },

    judge(stored, at, now) {
      const { record } = stored;
      // An abandoned record has lapsed whatever the clocks say, and knows when.
      if (record.state !== "pending" || record.spent) return record;
      const left = leftMs(stored, at);
      if (left === 0) return { ...record, leaseEndsAt: Math.min(record.leaseEndsAt, now) };
      // one-owner: added to the time since 1970, less than a quarter of a microsecond would be lost, and the lease would have ended.
      const leaseEndsAt = now + Math.ceil(left);
      // one-owner: by a clock that is far ahead, the retention of a claim may be over while its lease still runs.
      return { ...record, leaseEndsAt, keptUntil: Math.max(record.keptUntil, leaseEndsAt) };
    },
  };
}
