/**
 * The test suite of every reservation store: `reservationStoreSuite("postgres", open)`. The store is opened once, and each
 * test has its own namespace, so other tests may use the same database at the same time.
 */
import { afterAll, beforeAll, describe, inject } from "vitest";
import type { ReservationStore } from "../../src/reservations/store.ts";
import type { ServiceName } from "../services/services.ts";
import { crowdTests } from "./suite/crowds.ts";
import { keyTests } from "./suite/keys.ts";
import { lifecycleTests } from "./suite/lifecycle.ts";
import { nameTests } from "./suite/names.ts";
import { queryTests } from "./suite/queries.ts";
import { registryTests } from "./suite/registry.ts";
import { type Opened, sceneOn } from "./suite/scene.ts";

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
  const suite: Opened = (skip) => {
    if (typeof found !== "string") skip(found.skipped);
    return sceneOn(opened as OpenedStore);
  };

  describe(`reservations on ${name}`, () => {
    beforeAll(async () => {
      if (typeof found === "string") opened = await open();
    });
    afterAll(async () => void (await opened?.close()));
    lifecycleTests(suite);
    registryTests(suite);
    keyTests(suite);
    nameTests(suite);
    queryTests(suite);
    crowdTests(suite);
  });
}
