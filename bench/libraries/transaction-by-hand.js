/** Writes with a row for the key in the same transaction, as applications do it by hand. */
import { openTransactions } from "../transaction/transactions.js";

export const isKeyed = true;

export async function open(url, connections) {
  const { pool, inTransaction, close } = openTransactions(url, connections);
  await pool.query("CREATE TABLE keys (key text PRIMARY KEY, value jsonb)");
  return {
    run: (key, write) =>
      inTransaction(async (client) => {
        const { rowCount } = await client.query("INSERT INTO keys VALUES ($1) ON CONFLICT DO NOTHING", [key]);
        if (rowCount === 0) {
          const { rows } = await client.query("SELECT value FROM keys WHERE key = $1", [key]);
          return rows[0].value;
        }
        const value = await write(client);
        await client.query("UPDATE keys SET value = $2 WHERE key = $1", [key, JSON.stringify(value)]);
        return value;
      }),
    close,
  };
}
