/** A payment and its record in one commit, with Drizzle on Postgres. Clicks pay once, and a failure leaves nothing behind. */
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { drizzleDatabase } from "nevertwice/transaction/drizzle";
import pg from "pg";
import { tellStory } from "./transaction/story.js";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a database: DATABASE_URL=postgres://localhost/test node examples/transaction-drizzle.js",
  );
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `payments_drizzle_${process.pid}`;
const options = `-c search_path=${schema}`;
const pool = new pg.Pool({ connectionString: DATABASE_URL, options });
const db = drizzle({ client: pool });
const payments = pgTable("payments", { orderId: text("order_id"), amount: integer("amount") });
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });

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

await pool.query(`CREATE SCHEMA ${schema}`);
try {
  await pool.query(`${migrationSql()}; CREATE TABLE payments (order_id text, amount int)`);
  await tellStory(pay, async () => {
    const { rows } = await pool.query("SELECT order_id, amount FROM payments");
    return rows.map(({ order_id, amount }) => [order_id, amount]);
  });
} finally {
  await guard.close();
  await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  await pool.end();
}
