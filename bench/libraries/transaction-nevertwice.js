/** Writes in `guard.transaction`. */
import { createGuard } from "nevertwice";
import { postgresStore } from "nevertwice/stores/postgres";
import pg from "pg";

export const isKeyed = true;

export async function open(url, connections) {
  const records = new pg.Pool({ connectionString: url, max: 4 });
  const pool = new pg.Pool({ connectionString: url, max: connections });
  const store = postgresStore({ client: records });
  await store.migrate();
  const guard = createGuard({ store, purgeEveryMs: 0 });
  return {
    run: (key, write) => guard.transaction({ operation: "pay", key }, pool, write),
    async close() {
      await guard.close();
      await pool.end();
      await records.end();
    },
  };
}
