/** The proof kit: cases for stores and for HTTP adapters, faults to put before them, a clock to move, and the engine under virtual time. */
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
