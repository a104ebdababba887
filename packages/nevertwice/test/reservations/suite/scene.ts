/** The scene of a store test: its own namespace, and time that passes. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import { systemTimer } from "../../../src/core/clock.ts";
import { type Actions, createActions } from "../../../src/reservations/actions.ts";
import {
  createReservations,
  type Reservations,
  type ReservationsOptions,
} from "../../../src/reservations/index.ts";
import type { Page, ReservationStore, Rules } from "../../../src/reservations/store.ts";

export const HOUR_MS = 3_600_000;
/** Long enough to differ from now, short enough to wait for. */
export const MOMENT_MS = 30;

export const OK = { ok: true };
export const PLACED = { ok: true, id: expect.any(String) };
export const rejected = (reason: string) => expect.objectContaining({ ok: false, reason });

export interface Scene {
  readonly store: ReservationStore;
  readonly namespace: string;
  /** Undefined if the test cannot set the clock of the store. */
  readonly advance: ((ms: number) => Promise<void> | void) | undefined;
  reservations(options?: Partial<ReservationsOptions>): Reservations;
  /** The actions alone, which allow very short windows. */
  actions(rules: Partial<Rules>): Actions;
  /** Waits, or advances the store's clock. */
  pass(ms: number): Promise<void>;
  /** Places a hold for an hour with its own key; returns its id. */
  hold(
    on: Actions,
    resource: string,
    more?: { units?: number; durationMs?: number; requester?: string },
  ): Promise<string>;
}

/** `skip` is that of the calling test: it is skipped with a reason if the server is not available. */
export type Opened = (skip: (note: string) => void) => Scene;

interface Under {
  readonly store: ReservationStore;
  advance?(ms: number): Promise<void> | void;
}

export function sceneOn({ store, advance }: Under): Scene {
  const namespace = `suite-${randomUUID()}`;
  return {
    store,
    namespace,
    advance,
    reservations(options = {}) {
      const reservations = createReservations({ ...DEPLOYMENT, store, namespace, ...options });
      onTestFinished(() => reservations.close());
      return reservations;
    },
    actions: (rules) =>
      createActions({
        store,
        rules: {
          namespace,
          windowMs: HOUR_MS,
          historyMs: 0,
          maxDurationMs: HOUR_MS,
          available: undefined,
          ...rules,
        },
        actionMs: DEPLOYMENT.actionMs,
        timer: systemTimer,
      }),
    async pass(ms) {
      if (advance !== undefined) return await advance(ms);
      const until = (await store.now()) + ms;
      for (let now = await store.now(); now < until; now = await store.now()) await sleep(until - now);
    },
    async hold(on, resource, more = {}) {
      const request = { resource, requester: "ann", durationMs: HOUR_MS, key: fresh(), ...more };
      const answer = await on.placeHold(request);
      if (!answer.ok) throw new Error(`not held: ${answer.reason} ${answer.detail}`);
      return answer.id;
    },
  };
}

/** Long, because a slow machine is not a failure of the store. */
const DEPLOYMENT = { windowMs: HOUR_MS, actionMs: 60_000, purgeEveryMs: 0 };

/** A new key. */
export const fresh = () => randomUUID();

/** All rows of all pages of a query. */
export async function all<Row>(ask: (after: string | undefined) => Promise<Page<Row>>): Promise<Row[]> {
  const rows: Row[] = [];
  let after: string | undefined;
  do {
    const page = await ask(after);
    rows.push(...page.rows);
    after = page.next;
  } while (after !== undefined);
  return rows;
}

/** Counts the answers by reason. */
export function tally(
  answers: readonly { readonly ok: boolean; readonly reason?: string }[],
): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const { ok, reason } of answers) {
    const name = ok ? "ok" : String(reason);
    counted[name] = (counted[name] ?? 0) + 1;
  }
  return counted;
}
