/** A payment and its record in one commit, with Kysely on Postgres. Clicks pay once, and a failure leaves nothing behind. */
import { Kysely, PostgresDialect } from "kysely";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { kyselyDatabase } from "nevertwice/transaction/kysely";
import pg from "pg";
import { tellStory } from "./transaction/story.js";

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

/** @param {import("./transaction/story.js").Payment} payment */
const pay = ({ order, amount, onPending, beforeCommit }) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount }, onPending },
    kyselyDatabase(db),
    async (tx) => {
      await tx.insertInto("payments").values({ order_id: order, amount }).execute();
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
  await db.destroy();
}
