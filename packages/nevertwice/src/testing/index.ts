/** The proof kit: cases for stores, faults to put before them, a clock to move, and the engine under virtual time. */
export {
  type Fault,
  type FaultRates,
  type FaultyMethod,
  type FaultyStore,
  type FaultyStoreOptions,
  faultyStore,
} from "./faulty-store.ts";
export { type ManualClock, manualClock } from "./manual-clock.ts";
export {
  type SimulateOptions,
  type SimulationFailure,
  type SimulationReport,
  simulate,
} from "./simulation.ts";
export {
  GUARANTEES,
  type Guarantee,
  type StoreCase,
  type StoreUnderTest,
  storeCases,
} from "./store-cases.ts";
