/** The proof kit: what a store must keep, as cases that any test runner or none can run, and the clock to run them by. */
export { type ManualClock, manualClock } from "./manual-clock.ts";
export {
  GUARANTEES,
  type Guarantee,
  type StoreCase,
  type StoreUnderTest,
  storeCases,
} from "./store-cases.ts";
