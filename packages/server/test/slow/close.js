/** Closes reservations while a sweep is under way. */
import { openReservations } from "nevertwice/reservations/open";

const store = await openReservations(process.argv[2] ?? "");
await store.get("n", "id");
void store.elapsed("n", 10);
await store.close();
console.log("closed");
