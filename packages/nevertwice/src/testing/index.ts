/** The test kit: cases for stores, reservation stores and HTTP adapters, a store with faults, a manual clock, and the simulation. */
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
  type ReservationCase,
  type ReservationStoreUnderTest,
  type ReservationSubject,
  reservationCases,
} from "./reservation-cases.ts";
export {
  type SimulateOptions,
  type SimulationFailure,
  type SimulationReport,
  simulate,
} from "./simulation.ts";
export {
  type FaultRates,
  type FaultyMethod,
  type FaultyStore,
  type FaultyStoreOptions,
  faultyStore,
  GUARANTEES,
  type Guarantee,
  type ManualClock,
  manualClock,
  type StoreCase,
  type StoreFault as Fault,
  type StoreUnderTest,
  storeCases,
} from "./stores.ts";
