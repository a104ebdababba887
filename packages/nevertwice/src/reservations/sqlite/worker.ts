/** The worker thread of reservations in a file. The machine's clock judges. */
import { systemClock } from "../../core/clock.ts";
import { patiently } from "../../stores/sqlite/patience.ts";
import { openPost } from "../../stores/sqlite/service.ts";
import { type Call, runOn } from "./calls.ts";
import { connect } from "./connection.ts";

await openPost().serve<Call, unknown>({
  connect: (database) => runOn(() => connect(database, { clock: systemClock, waiting: patiently })),
});
