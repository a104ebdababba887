/** A payment and its record in one commit, with Knex on Postgres. Clicks pay once, and a failure leaves nothing behind. */
import createKnex from "knex";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { knexDatabase } from "nevertwice/transaction/knex";
import pg from "pg";
import { tellStory } from "./transaction/story.js";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a database: DATABASE_URL=postgres://localhost/test node examples/transaction-knex.js",
  );
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `payments_knex_${process.pid}`;
const options = `-c search_path=${schema}`;
const pool = new pg.Pool({ connectionString: DATABASE_URL, options });
const knex = createKnex({ client: "pg", connection: { connectionString: DATABASE_URL, options } });
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });

/** @param {import("./transaction/story.js").Payment} payment */
const pay = ({ order, amount, onPending, beforeCommit }) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount }, onPending },
    knexDatabase(knex),
    async (tx) => {
      await tx("payments").insert({ order_id: order, amount });
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
  await knex.destroy();
  await pool.end();
}
