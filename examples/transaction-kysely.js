/** A payment and its record in one commit, with Kysely. Two clicks pay once, and a failure leaves nothing behind. */
import { Kysely, PostgresDialect } from "kysely";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { kyselyDatabase } from "nevertwice/transaction/kysely";
import pg from "pg";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a database: DATABASE_URL=postgres://localhost/test node examples/transaction-kysely.js",
  );
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `payments_kysely_${process.pid}`;
const options = `-c search_path=${schema}`;
const pool = new pg.Pool({ connectionString: DATABASE_URL, options });
/** @type {Kysely<{ payments: { order_id: string, amount: number } }>} */
const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });

/** @param {string} order @param {number} amount */
const pay = (order, amount) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount } },
    kyselyDatabase(db),
    async (tx) => {
      await tx.insertInto("payments").values({ order_id: order, amount }).execute();
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
  await db.destroy();
}
