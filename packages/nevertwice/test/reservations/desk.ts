/** Reservations in memory with a manual clock, for the scenarios. */
import { onTestFinished } from "vitest";
import {
  createReservations,
  type Placed,
  type Rejected,
  type Reservations,
  type ReservationsOptions,
  WINDOWS,
} from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { type FailingStore, failing } from "./failing.ts";

export const SECOND_MS = 1_000;
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

export const NAMESPACE = "default";

export interface Desk {
  readonly clock: ManualClock;
  readonly store: FailingStore;
  readonly desk: Reservations;
  /** Reservations on the same store, as in another process. */
  another(options?: Partial<ReservationsOptions>): Reservations;
}

/** The window is ten minutes (`clientReplay`), unless the scenario sets another. */
export function openDesk(options: Partial<ReservationsOptions> = {}): Desk {
  const clock = manualClock();
  const store = failing(memoryReservations({ clock }));
  function another(more: Partial<ReservationsOptions> = {}): Reservations {
    const reservations = createReservations({
      store,
      windowMs: WINDOWS.clientReplay,
      purgeEveryMs: 0,
      ...options,
      ...more,
    });
    onTestFinished(() => reservations.close());
    return reservations;
  }
  return { clock, store, desk: another(), another };
}

export function placedId(answer: Placed | Rejected): string {
  if (!answer.ok) throw new Error(`rejected: ${answer.reason}, ${answer.detail}`);
  return answer.id;
}
