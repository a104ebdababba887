/**
 * The published cases as tests: `reservationStoreSuite("postgres", open)`. The store is opened once, and each case has its
 * own namespace, so other tests may use the same database at the same time.
 */
import { afterAll, beforeAll, describe, inject, test } from "vitest";
import type { ReservationStore } from "../../src/reservations/store.ts";
import { reservationCases } from "../../src/testing/reservation-cases.ts";
import type { ServiceName } from "../services/services.ts";

export interface OpenedStore {
  readonly store: ReservationStore;
  /** Moves the clock that the store reads. Without it the tests wait in real time, for moments. */
  advance?(ms: number): Promise<void> | void;
  close(): Promise<void>;
}

export interface StoreSuiteOptions {
  /** The shared server that the store needs: where it cannot be had, every test is skipped and says why. */
  readonly service?: ServiceName;
}

export function reservationStoreSuite(
  name: string,
  open: () => Promise<OpenedStore>,
  { service }: StoreSuiteOptions = {},
): void {
  const found = service === undefined ? "" : inject("services")[service];
  let opened: OpenedStore | undefined;

  describe(`reservations on ${name}`, () => {
    beforeAll(async () => {
      if (typeof found === "string") opened = await open();
    });
    afterAll(async () => void (await opened?.close()));
    const cases = reservationCases(() => {
      const { store, advance } = opened as OpenedStore;
      return { store, advance, dispose() {} };
    });
    for (const { name: title, run } of cases)
      test(title, async ({ skip }) => {
        if (typeof found !== "string") skip(found.skipped);
        await run();
      });
  });
}
