/** The worker thread of a `{ file }` store. The machine's clock judges. */
import { systemClock } from "../../core/clock.ts";
import type { Call, Reply } from "./calls.ts";
import { connect } from "./connection.ts";
import { pass } from "./gate.ts";
import { createLookout } from "./lookout.ts";
import { type FromWorker, type ToWorker, withFailures } from "./messages.ts";
import { patiently } from "./patience.ts";
import { openPost } from "./service.ts";
import type { Table } from "./table.ts";

let table: Table | undefined;
const { gate, tell, serve } = openPost<FromWorker>();
const lookout = createLookout({
  tableOf: () => table,
  wake: (ids) => tell(["wake", ids]),
  around: (look) => pass(gate, look),
});

await serve<readonly Call[], Reply>({
  connect(database) {
    const connection = connect(database, { clock: systemClock, waiting: patiently });
    table = connection.table;
    return (calls) => withFailures(connection.run(calls));
  },
  hear(message) {
    const [kind, body] = message as ToWorker;
    if (kind === "watch") lookout.add(body);
    else lookout.remove(body);
  },
  stop: lookout.stop,
});
