/**
 * The worker thread of a `{ file }` store: owns the connection, so that no flush ever blocks the event loop of the process.
 * It opens the file when it is first asked and tries again each time that failed. The machine's clock judges.
 */
import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "../../core/clock.ts";
import { type Connection, connect } from "./connection.ts";
import type { OwnDatabase } from "./driver.ts";
import { type Driver, findDriver } from "./drivers.ts";
import { openFile } from "./file.ts";
import { pass } from "./gate.ts";
import { createLookout } from "./lookout.ts";
import { type FromWorker, type ToWorker, toFailure, type WorkerData, withFailures } from "./messages.ts";
import { patiently } from "./patience.ts";

const port = parentPort;
if (port === null) throw new Error("nevertwice's SQLite worker runs in a worker thread only.");
const { settings, gate } = workerData as WorkerData;

let database: OwnDatabase | undefined;
let connection: Connection | undefined;
const lookout = createLookout({
  tableOf: () => connection?.table,
  wake: (ids) => tell(["wake", ids]),
  around: (look) => pass(gate, look),
});

// Messages wait until somebody listens, so they stay in order.
const found: Driver | { readonly failure: unknown } = await findDriver(settings.exclusive).catch(
  (failure) => ({ failure }),
);
port.on("message", (message: ToWorker) => pass(gate, () => hear(message)));

function tell(message: FromWorker): void {
  port?.postMessage(message);
}

function hear(message: ToWorker): void {
  switch (message[0]) {
    case "run":
      try {
        tell(["done", withFailures(opened().run(message[1]))]);
      } catch (error) {
        tell(["failed", toFailure(error)]);
      }
      break;
    case "watch":
      lookout.add(message[1]);
      break;
    case "unwatch":
      lookout.remove(message[1]);
      break;
    case "close":
      close();
  }
}

function opened(): Connection {
  if (connection !== undefined) return connection;
  if ("failure" in found) throw found.failure;
  const candidate = openFile(found, settings);
  try {
    connection = connect(candidate, { clock: systemClock, waiting: patiently });
    database = candidate;
    return connection;
  } catch (error) {
    candidate.close();
    throw error;
  }
}

/** The thread is ended by whoever started it: it cannot end itself on every runtime. */
function close(): void {
  lookout.stop();
  database?.close();
  tell(["closed"]);
}
