/** The scene of one case of a reservation store: its own namespace, and time that passes. */
import { systemTimer } from "../../core/clock.ts";
import { type Actions, createActions } from "../../reservations/actions.ts";
import type { Answer } from "../../reservations/answer.ts";
import { createReservations, type Reservations, type ReservationsOptions } from "../../reservations/index.ts";
import type { Page, ReservationStore, Rules } from "../../reservations/store.ts";
import { matcher } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import { anyText } from "./expectation.ts";

export const HOUR_MS = 3_600_000;
/** Long enough to differ from now, short enough to wait for. */
export const MOMENT_MS = 30;

export const OK = { ok: true };
export const PLACED = { ok: true, id: anyText };
export const rejected = (reason: string) =>
  matcher(`a rejection as ${reason}`, (found) => {
    const answer = found as Answer | undefined;
    return answer?.ok === false && answer.reason === reason;
  });

export interface ReservationScene {
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

/** Cases by their names. A name is a sentence about behaviour. */
export type ReservationCases = Readonly<Record<string, (scene: ReservationScene) => Promise<void>>>;

interface Staged {
  readonly scene: ReservationScene;
  /** Closes what the case has opened. */
  end(): Promise<void>;
}

export function stageOn(store: ReservationStore, advance: ReservationScene["advance"]): Staged {
  const namespace = `nevertwice-cases-${crypto.randomUUID()}`;
  const opened: Reservations[] = [];
  const scene: ReservationScene = {
    store,
    namespace,
    advance,
    reservations(options = {}) {
      const reservations = createReservations({ ...DEPLOYMENT, store, namespace, ...options });
      opened.push(reservations);
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
  return { scene, end: async () => void (await Promise.all(opened.map((one) => one.close()))) };
}

/** Long, because a slow machine is not a failure of the store. */
const DEPLOYMENT = { windowMs: HOUR_MS, actionMs: 60_000, purgeEveryMs: 0 };

/** A new key. */
export const fresh = () => crypto.randomUUID();

/** All rows of all pages of a query. */
export async function all<Row>(ask: (after: string | undefined) => Promise<Page<Row>>): Promise<Row[]> {
  const rows: Row[] = [];
  const places = new Set<string>();
  let after: string | undefined;
  do {
    const page = await ask(after);
    rows.push(...page.rows);
    after = page.next;
    // Otherwise a store that ignores `after` would be asked forever.
    if (after !== undefined && places.has(after)) throw new Error(`two pages end at ${after}`);
    places.add(after ?? "");
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
