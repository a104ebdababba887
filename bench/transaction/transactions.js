/** Transactions on a pool, as applications write them. */
import pg from "pg";

export function openTransactions(url, connections) {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  return {
    pool,
    async inTransaction(work) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const value = await work(client);
        await client.query("COMMIT");
        return value;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    close: () => pool.end(),
  };
}
