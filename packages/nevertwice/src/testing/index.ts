/** The test kit: cases for stores and HTTP adapters, a store with faults, a manual clock, and the simulation. */
export {
  type AdapterCase,
  type AdapterHarness,
  type AdapterSubject,
  adapterCases,
  type HandledRequest,
  type Need,
  type ReceivedResponse,
  type ScriptedAnswer,
  type ScriptedApp,
  type ScriptedBody,
  type SentRequest,
  type Served,
} from "./adapter-cases.ts";
export {
  type FaultRates,
  type FaultyMethod,
  type FaultyStore,
  type FaultyStoreOptions,
  faultyStore,
  type StoreFault as Fault,
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
