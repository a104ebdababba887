/** An application for Node to bundle: a charge that is made once, on a SQLite file. */
import { createGuard } from "nevertwice";
import { sqliteStore } from "nevertwice/stores/sqlite";

async function main() {
  const store = sqliteStore({ file: process.argv[2] ?? "./nevertwice.db" });
  const guard = createGuard({ store });
  const { status } = await guard.tryRun({ operation: "charge", key: "order-1" }, () => "receipt-1");
  console.log(status);
  await guard.close();
  await store.close();
}

void main();
