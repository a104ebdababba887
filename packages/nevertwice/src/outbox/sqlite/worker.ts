/** The entry of the worker thread of an outbox that was created with `{ file }`, by the clock of this machine. */
import { systemClock } from "../../core/clock.ts";
import { retryWhileLocked } from "../../stores/sqlite/client.ts";
import { openWorkerPort } from "../../stores/sqlite/worker-service.ts";
import { type OutboxCall, runCalls } from "./connection.ts";

await openWorkerPort().serve<OutboxCall, unknown>({
  connect: (database) => runCalls(database, { clock: systemClock, waiting: retryWhileLocked }),
});
