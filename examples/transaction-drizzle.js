/** A payment and its record in one commit, with Drizzle. Two clicks pay once, and a failure leaves nothing behind. */
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { drizzleDatabase } from "nevertwice/transaction/drizzle";
import pg from "pg";

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

/** @param {string} order @param {number} amount */
const pay = (order, amount) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount } },
    drizzleDatabase(db),
    async (tx) => {
      await tx.insert(payments).values({ orderId: order, amount });
      if (amount > 100) throw new Error("over the limit");
      return { paid: amount };
    },
  );

await pool.query(`CREATE SCHEMA ${schema}`);
try {
  await pool.query(`${migrationSql()}; CREATE TABLE payments (order_id text, amount int)`);
  const clicks = await Promise.all([pay("order-1", 42), pay("order-1", 42)]);
  console.log(`two clicks: paid ${clicks.map(({ paid }) => paid).join(" and ")}`);
  await pay("order-2", 4200).catch((error) => console.log(`too much: ${error.message}`));
  const { rows } = await pool.query("SELECT order_id, amount FROM payments");
  console.log(`payments: ${rows.map(({ order_id, amount }) => `${order_id} ${amount}`).join(", ")}`);
} finally {
  await guard.close();
  await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  await pool.end();
}
