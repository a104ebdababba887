/** Tells the database how deliveries ended: those that end together in one statement, repeated until it answers. */
import { pause } from "../core/backoff.ts";
import { systemTimer as timer } from "../core/clock.ts";
import type { RelayEvent } from "./relay-options.ts";
import type { ClaimedMessage, ClaimedRow, FailedRow, OutboxStore, ParkedRow } from "./store.ts";

/** A message that a relay has claimed. */
export interface HeldMessage {
  readonly claimed: ClaimedMessage;
  readonly ending: ClaimedRow;
  /** By this process's own clock, counted from before the claim or the renewal was sent. */
  leaseEndsAt: number;
  /** When its delivery began. */
  startedAt: number;
  /** Whether it is known how the attempt ended. The database may not know yet. */
  isOver: boolean;
  /** Ends the delivery in flight. */
  abort(reason: Error): void;
}

export type HeldEnd =
  | { readonly kind: "delivered" | "released" }
  | { readonly kind: "failed"; readonly delayMs: number; readonly error: string }
  | { readonly kind: "parked"; readonly error: string };

type Ended = readonly [held: HeldMessage, ending: HeldEnd];

export interface Settlements {
  add(held: HeldMessage, ending: HeldEnd): void;
  /** Settles what was added, in the background. */
  flush(): void;
  /** Resolves when everything is settled, or when the database did not answer several times. */
  finish(): Promise<void>;
}

export interface SettlementContext {
  readonly store: OutboxStore;
  readonly namespace: string;
  /** Every message that this relay holds. Those that are settled are removed. */
  readonly held: Set<HeldMessage>;
  emit(event: RelayEvent): void;
  /** Called when messages became due, or were settled by another relay. */
  onAdvanced(): void;
}

const SETTLED_AT_ONCE = 1_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** How often a relay that stops tries to tell the database how its deliveries ended. */
const STOP_TRIES = 5;

/** The wait after a number of failures in a row. */
export function pauseMs(failures: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}

export function createSettlements({
  store,
  namespace,
  held,
  emit,
  onAdvanced,
}: SettlementContext): Settlements {
  let ended: Ended[] = [];
  let settling: Promise<void> | undefined;
  let isFinishing = false;

  function flush(): void {
    settling ??= settleAll().finally(() => {
      settling = undefined;
    });
  }

  async function settleAll(): Promise<void> {
    // Deliveries that end together are settled together.
    await new Promise((resolve) => setImmediate(resolve));
    for (let failures = 0; ended.length > 0; ) {
      const now = ended.splice(0, SETTLED_AT_ONCE);
      try {
        await settle(now);
        failures = 0;
      } catch (cause) {
        emit({ kind: "unavailable", during: "settle", cause });
        failures++;
        // It stays held, so that its lease is renewed: no other relay delivers it meanwhile. If the lease ends, it is lost.
        for (const [each] of now) if (timer.now() >= each.leaseEndsAt) held.delete(each);
        ended = [...now.filter(([each]) => held.has(each)), ...ended];
        if (isFinishing && failures >= STOP_TRIES) return;
        await pause(timer, pauseMs(failures));
      }
    }
  }

  async function settle(now: readonly Ended[]): Promise<void> {
    const delivered = now.filter(([, { kind }]) => kind === "delivered");
    const { deleted, advanced } = await store.settle({
      namespace,
      delivered: delivered.map(([{ ending }]) => ending),
      keys: delivered.flatMap(([{ claimed }]) => (claimed.key === undefined ? [] : [claimed.key])),
      failed: now.flatMap(([each, end]): FailedRow[] =>
        end.kind === "failed" ? [{ ...each.ending, delayMs: end.delayMs, error: end.error }] : [],
      ),
      parked: now.flatMap(([each, end]): ParkedRow[] =>
        end.kind === "parked" ? [{ ...each.ending, error: end.error }] : [],
      ),
      released: now.flatMap(([{ ending }, { kind }]) => (kind === "released" ? [ending] : [])),
    });
    for (const [each] of now) held.delete(each);
    if (advanced > 0 || deleted < delivered.length) onAdvanced();
  }

  return {
    add(each, ending) {
      each.isOver = true;
      ended.push([each, ending]);
    },
    flush,
    async finish() {
      isFinishing = true;
      flush();
      await settling;
    },
  };
}
