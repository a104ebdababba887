/** Runs the store suite on reservations in memory, with a manual clock. */
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { reservationStoreSuite } from "./store-suite.ts";

reservationStoreSuite("memory", async () => {
  const clock = manualClock();
  return { store: memoryReservations({ clock }), advance: clock.advance, close: async () => {} };
});

reservationStoreSuite("memory, in real time", async () => ({
  store: memoryReservations(),
  close: async () => {},
}));
