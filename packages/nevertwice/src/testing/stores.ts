/** The part of the test kit that needs no module of Node: cases for stores, a store with faults, a manual clock. */
export {
  type FaultRates,
  type FaultyMethod,
  type FaultyStore,
  type FaultyStoreOptions,
  faultyStore,
  type StoreFault,
} from "./faulty-store.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export {
  GUARANTEES,
  type Guarantee,
  type StoreCase,
  type StoreUnderTest,
  storeCases,
} from "./store-cases.ts";
