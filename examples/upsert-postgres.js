/** Writes that are idempotent by themselves, on Postgres: an upsert, and a write that names the version it replaces. */
import pg from "pg";
import { assetsIn, TABLE } from "./assets/postgres.js";
import { tour } from "./assets/tour.js";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a database: DATABASE_URL=postgres://localhost/test node examples/upsert-postgres.js",
  );
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `assets_${process.pid}`;
const pool = new pg.Pool({ connectionString: DATABASE_URL, options: `-c search_path=${schema}` });
await pool.query(`CREATE SCHEMA ${schema}`);
try {
  await pool.query(TABLE);
  await tour(assetsIn(pool));
} finally {
  await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  await pool.end();
}
