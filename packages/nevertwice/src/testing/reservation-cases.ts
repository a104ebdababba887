/**
 * The cases that every store of reservations must pass, as plain objects that need no test runner. `nevertwice/testing`
 * publishes them, so that authors and users of other stores can run the same cases.
 */
import type { ReservationStore } from "../reservations/store.ts";
import { isUnexpected } from "./cases/expect.ts";
import { crowds } from "./reservation-cases/crowds.ts";
import { erasure } from "./reservation-cases/erasure.ts";
import { keys } from "./reservation-cases/keys.ts";
import { lifecycle } from "./reservation-cases/lifecycle.ts";
import { names } from "./reservation-cases/names.ts";
import { queries } from "./reservation-cases/queries.ts";
import { registry } from "./reservation-cases/registry.ts";
import { type ReservationCases, stageOn } from "./reservation-cases/scene.ts";

/** The reservation store that the cases test. */
export interface ReservationStoreUnderTest {
  /** An empty store. */
  readonly store: ReservationStore;
  /** Moves the store's clock. Without it the cases really wait, for moments. */
  readonly advance?: ((ms: number) => void | Promise<void>) | undefined;
  /** Called when the case is over. Without it the store is closed. */
  readonly dispose?: (() => void | Promise<void>) | undefined;
}

/** What a case is about. */
export type ReservationSubject =
  | "lifecycle"
  | "registry"
  | "keys"
  | "erasure"
  | "names"
  | "queries"
  | "crowds";

/** A case that a reservation store must pass. */
export interface ReservationCase {
  /** A sentence about behaviour. */
  readonly name: string;
  /** What the case is about. */
  readonly subject: ReservationSubject;
  /** Resolves if the store passes. Rejects with an error that says what was expected and what came. */
  run(): Promise<void>;
}

const CASES: Readonly<Record<ReservationSubject, ReservationCases>> = {
  lifecycle,
  registry,
  keys,
  erasure,
  names,
  queries,
  crowds,
};

type CreateReservationStore = () =>
  | ReservationStore
  | ReservationStoreUnderTest
  | Promise<ReservationStore | ReservationStoreUnderTest>;

/**
 * The cases of all subjects. Each run calls `create` itself and uses its own namespace, so `create` may return a store on
 * the same database with other records in it. Cases may run at once unless they share a clock that `advance` moves.
 * @example
 * ```ts
 * import { memoryReservations } from "nevertwice/reservations/memory";
 * import { manualClock, reservationCases } from "nevertwice/testing";
 *
 * const clock = manualClock();
 * const createStore = () => ({
 *   store: memoryReservations({ clock }),
 *   advance: (ms: number) => clock.advance(ms),
 * });
 * for (const { run } of reservationCases(createStore).slice(0, 3)) await run(); // each as a test of your runner
 * ```
 */
export function reservationCases(create: CreateReservationStore): readonly ReservationCase[] {
  return Object.entries(CASES).flatMap(([subject, cases]) =>
    Object.entries(cases).map(([name, check]) => ({
      name,
      subject: subject as ReservationSubject,
      run: () => runReservationCase(create, check, `${subject}: ${name}`),
    })),
  );
}

async function runReservationCase(
  create: CreateReservationStore,
  check: ReservationCases[string],
  title: string,
): Promise<void> {
  const made = await create();
  const { store, advance, dispose }: ReservationStoreUnderTest = "store" in made ? made : { store: made };
  const { scene, end } = stageOn(store, advance);
  const [judged] = await Promise.allSettled([check?.(scene)]);
  const [left] = await Promise.allSettled([
    end().then(() => (dispose === undefined ? store.close() : dispose())),
  ]);
  // The failure of a case is reported even if the store then fails to close.
  if (judged.status === "rejected") throw caseFailure(title, judged.reason);
  if (left.status === "rejected") throw left.reason;
}

function caseFailure(title: string, error: unknown): Error {
  const said = isUnexpected(error) ? error.message : `the store failed\n  came:     ${String(error)}`;
  return new Error(`${title}\n  asked:    ${said}`, { cause: error });
}
