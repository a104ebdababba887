/** A seat and the order for it in one commit. A rollback leaves neither, and a retry gets the same seat. */
import { createReservations, WINDOWS } from "nevertwice/reservations";
import { postgresReservations, reservationsSql } from "nevertwice/reservations/postgres";
import pg from "pg";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log(
    "This one needs a database: DATABASE_URL=postgres://localhost/test node examples/hold-in-transaction.js",
  );
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `seats_${process.pid}`;
const pool = new pg.Pool({ connectionString: DATABASE_URL, options: `-c search_path=${schema}` });
const store = postgresReservations({ client: pool });
const seats = createReservations({ store, windowMs: WINDOWS.clientReplay, purgeEveryMs: 0 });

/** @param {string} order @param {number} amount */
async function book(order, amount) {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    const request = { resource: "12A", requester: order, durationMs: 600_000, key: `${order}/hold` };
    const held = await seats.placeHold(request, { tx });
    if (held.ok)
      await tx.query("INSERT INTO orders VALUES ($1, $2) ON CONFLICT DO NOTHING", [order, held.id]);
    if (amount > 100) throw new Error("over the limit");
    await tx.query("COMMIT");
    return held.ok ? "booked" : held.reason;
  } catch (error) {
    await tx.query("ROLLBACK");
    throw error;
  } finally {
    tx.release();
  }
}

await pool.query(`CREATE SCHEMA ${schema}`);
try {
  await pool.query(`${reservationsSql()}; CREATE TABLE orders (id text PRIMARY KEY, hold text)`);
  await book("order-1", 4200).catch((error) => console.log(`too expensive: ${error.message}`));
  console.log(`two clicks: ${(await Promise.all([book("order-2", 42), book("order-2", 42)])).join(" and ")}`);
  console.log(`another order: ${await book("order-3", 42)}`);
  const { rows } = await pool.query("SELECT id FROM orders");
  const { ok, counts } = await seats.audit();
  console.log(`orders: ${rows.map(({ id }) => id).join(", ")}; holds: ${counts.commitments}; audit: ${ok}`);
} finally {
  await seats.close();
  await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  await pool.end();
}
