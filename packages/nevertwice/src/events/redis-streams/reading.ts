/** Reads a group's entries until it is told to stop: new ones and idle ones in turn, through every outage. */
import { backoffMs, backoffOf, pause } from "../../core/backoff.ts";
import { systemTimer } from "../../core/clock.ts";
import type { StreamEvent } from "./event.ts";
import { codeOf, type Group } from "./group.ts";
import type { StreamLink } from "./link.ts";
import type { Places } from "./places.ts";

export interface Reading {
  readonly stream: string;
  readonly group: Group;
  readonly places: Places;
  /** A connection that may wait in Redis; undefined if there is none to spare. */
  readonly reader: StreamLink | undefined;
  readonly pollMs: number;
  readonly claimIdleMs: number;
  /** Whether the group was not there, and was made. */
  readonly makeGroup: () => Promise<boolean>;
  readonly tell: (event: StreamEvent) => void;
  readonly signal: AbortSignal;
}

/** How often idle entries are looked for. */
const CLAIM_EVERY_MS = 1_000;
const OUTAGE = backoffOf({ baseMs: 100, capMs: 5_000 });

export async function readEntries(reading: Reading): Promise<void> {
  const { stream, places, makeGroup, tell, signal } = reading;
  const look = looking(reading);
  let failures = 0;
  while (!signal.aborted) {
    try {
      if (places.room(false) === 0) {
        await places.vacated();
        continue;
      }
      await look();
      if (failures > 0) tell({ kind: "resumed", stream });
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (codeOf(error) === "NOGROUP" && (await makeGroup().catch(() => false))) continue;
      if (failures === 0) tell({ kind: "interrupted", stream, error });
      failures++;
      await pause(systemTimer, backoffMs(OUTAGE, failures, Math.random()), signal);
    }
  }
}

/** One look for entries, old or new. */
function looking({ stream, group, places, reader, pollMs, claimIdleMs, tell, signal }: Reading) {
  let claimAt = 0;
  /** One who has a single place must not give it to old entries for ever. */
  let isNewNext = false;
  return async (): Promise<void> => {
    const now = systemTimer.now();
    const roomForOld = places.room(true);
    if (now >= claimAt && roomForOld > 0 && !isNewNext) {
      isNewNext = true;
      const old = await group.claim(roomForOld, claimIdleMs);
      if (old.length === 0) claimAt = now + Math.min(CLAIM_EVERY_MS, claimIdleMs);
      else tell({ kind: "claimed", stream, count: old.length });
      places.take(old, true);
      if (places.room(false) === 0) return;
    }
    const fresh = await group.read(reader, places.room(false), pollMs);
    isNewNext = false;
    places.take(fresh, false);
    if (fresh.length === 0 && reader === undefined) await pause(systemTimer, pollMs, signal);
  };
}
