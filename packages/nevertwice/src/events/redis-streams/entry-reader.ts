/** Reads the entries of a group until it is stopped: new entries and idle ones in turn, through every outage of Redis. */
import { backoffMs, pause, toBackoff } from "../../core/backoff.ts";
import { systemTimer } from "../../core/clock.ts";
import type { StreamConnection } from "./client.ts";
import type { EntrySlots } from "./entry-slots.ts";
import type { StreamEvent } from "./event.ts";
import { errorCode, type Group } from "./group.ts";

export interface EntryReaderOptions {
  readonly stream: string;
  readonly group: Group;
  readonly slots: EntrySlots;
  /** A connection that may wait in Redis. Undefined if there is none. */
  readonly reader: StreamConnection | undefined;
  readonly pollMs: number;
  readonly claimIdleMs: number;
  /** Creates the group if it is missing, and returns whether it did. */
  readonly makeGroup: () => Promise<boolean>;
  readonly report: (event: StreamEvent) => void;
  readonly signal: AbortSignal;
}

/** How often to look for idle entries. */
const CLAIM_EVERY_MS = 1_000;
const OUTAGE = toBackoff({ baseMs: 100, capMs: 5_000 });

export async function readEntries(options: EntryReaderOptions): Promise<void> {
  const { stream, slots, makeGroup, report, signal } = options;
  const readOnce = createReadOnce(options);
  let failures = 0;
  while (!signal.aborted) {
    try {
      if (slots.room(false) === 0) {
        await slots.vacated();
        continue;
      }
      await readOnce();
      if (failures > 0) report({ kind: "resumed", stream });
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (errorCode(error) === "NOGROUP" && (await makeGroup().catch(() => false))) continue;
      if (failures === 0) report({ kind: "interrupted", stream, error });
      failures++;
      await pause(systemTimer, backoffMs(OUTAGE, failures, Math.random()), signal);
    }
  }
}

/** Claims idle entries if it is time, and reads new ones. */
function createReadOnce({
  stream,
  group,
  slots,
  reader,
  pollMs,
  claimIdleMs,
  report,
  signal,
}: EntryReaderOptions) {
  let claimAt = 0;
  /** With a single slot, idle entries must not take it every time. */
  let isNewNext = false;
  return async (): Promise<void> => {
    const now = systemTimer.now();
    const roomForIdle = slots.room(true);
    if (now >= claimAt && roomForIdle > 0 && !isNewNext) {
      isNewNext = true;
      const idle = await group.claim(roomForIdle, claimIdleMs);
      if (idle.length === 0) claimAt = now + Math.min(CLAIM_EVERY_MS, claimIdleMs);
      else report({ kind: "claimed", stream, count: idle.length });
      slots.take(idle, true);
      if (slots.room(false) === 0) return;
    }
    const fresh = await group.read(reader, slots.room(false), pollMs);
    isNewNext = false;
    slots.take(fresh, false);
    if (fresh.length === 0 && reader === undefined) await pause(systemTimer, pollMs, signal);
  };
}
