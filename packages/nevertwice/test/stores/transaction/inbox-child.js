/**
 * A consumer in a separate process: `node inbox-child.js <url> <id> <when>`. It handles one message and says the verdict.
 * `when` is where it kills itself: `commit`, `handling`, or `never`.
 */
import { consumer } from "../../../dist/events/index.js";
import { createGuard } from "../../../dist/index.js";
import { postgresStore } from "../../../dist/stores/postgres.js";
import { dyingPool } from "./dying-pool.js";

const [url = "", id = "", when = ""] = process.argv.slice(2);
const pool = dyingPool(url, false);
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });
const { handle } = consumer(guard, {
  name: "payments",
  key: (/** @type {string} */ message) => message,
  transaction: dyingPool(url, when === "commit"),
  async work(tx, message) {
    await tx.query("INSERT INTO ledger VALUES ($1)", [message]);
    return process.pid;
  },
});
const delivery = await handle(id);
if (when === "handling") process.kill(process.pid, "SIGKILL");
process.stdout.write(`${JSON.stringify(delivery)}\n`);
process.exit(0);
