/** A payment and its record in one commit, with Drizzle on MySQL or MariaDB. Clicks pay once, and a failure leaves nothing behind. */
import { int, mysqlTable, varchar } from "drizzle-orm/mysql-core";
import { drizzle } from "drizzle-orm/mysql2";
import { createConnection, createPool } from "mysql2/promise";
import { createGuard } from "nevertwice";
import { mysqlStore } from "nevertwice/stores/mysql";
import { drizzleDatabase } from "nevertwice/transaction/drizzle";
import { tellStory } from "./transaction/story.js";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a server: DATABASE_URL=mysql://root@localhost node examples/transaction-drizzle-mysql.js",
  );
  process.exit();
}

// A database of its own, which is gone afterwards.
const database = `payments_drizzle_${process.pid}`;
const server = await createConnection(DATABASE_URL);
await server.query(`CREATE DATABASE ${database}`);
const uri = Object.assign(new URL(DATABASE_URL), { pathname: `/${database}` }).href;
const pool = createPool(uri);
const db = drizzle({ client: pool });
const payments = mysqlTable("payments", {
  orderId: varchar("order_id", { length: 99 }),
  amount: int("amount"),
});
const store = mysqlStore({ client: pool });
const guard = createGuard({ store, purgeEveryMs: 0 });

/** @param {import("./transaction/story.js").Payment} payment */
const pay = ({ order, amount, onPending, beforeCommit }) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount }, onPending },
    drizzleDatabase(db),
    async (tx) => {
      await tx.insert(payments).values({ orderId: order, amount });
      if (amount > 100) throw new Error("over the limit");
      await beforeCommit?.();
      return { paid: amount };
    },
  );

try {
  await store.migrate();
  await pool.query("CREATE TABLE payments (order_id varchar(99), amount int)");
  await tellStory(pay, async () => {
    const [rows] = await pool.query("SELECT order_id, amount FROM payments");
    return /** @type {{ order_id: string, amount: number }[]} */ (rows).map((row) => [
      row.order_id,
      row.amount,
    ]);
  });
} finally {
  await guard.close();
  await server.query(`DROP DATABASE ${database}`);
  await pool.end();
  await server.end();
}
