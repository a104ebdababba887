/** Reservations in memory: held to what every store is held to, with a clock that stands until it is moved. */
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
