/** The entry of the worker thread that runs the transactions of `sqliteReservations({ file })`, by the clock of this machine. */
import { systemClock } from "../../core/clock.ts";
import { retryWhileLocked } from "../../stores/sqlite/client.ts";
import { createCaller } from "../../stores/sqlite/connection-calls.ts";
import { openWorkerPort } from "../../stores/sqlite/worker-service.ts";
import { connect } from "./connection.ts";

const call = createCaller(connect);
void openWorkerPort().serve({
  connect: (database) => call(database, { clock: systemClock, waiting: retryWhileLocked }),
});
