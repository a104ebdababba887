/** The worker thread of a `{ file }` store. Leases and retention are judged by the machine's clock. */
import { systemClock } from "../../core/clock.ts";
import { createCallRunner } from "./call-runner.ts";
import { type CallReply, copyErrors, type FromWorker, type StoreCall, type ToWorker } from "./calls.ts";
import { retryWhileLocked } from "./client.ts";
import type { RecordTable } from "./records.ts";
import { createRecordWatch } from "./watch.ts";
import { openWorkerPort } from "./worker-service.ts";
import { passGate } from "./worker-thread.ts";

let table: RecordTable | undefined;
const { gate, post, serve } = openWorkerPort<FromWorker>();
const watch = createRecordWatch({
  table: () => table,
  wake: (ids) => post(["wake", ids]),
  runCheck: (check) => passGate(gate, check),
});

void serve<readonly StoreCall[], CallReply>({
  connect(database) {
    const runner = createCallRunner(database, {
      clock: systemClock,
      isAlone: true,
      waiting: retryWhileLocked,
    });
    table = runner.table;
    return (calls) => copyErrors(runner.run(calls));
  },
  onOpened: (file) => post(["opened", file]),
  onMessage(message) {
    const [kind, body] = message as ToWorker;
    if (kind === "watch") watch.add(body);
    else watch.remove(body);
  },
  stop: watch.stop,
});
