/** A Postgres without a table: whatever was in it is gone. */
import pg from "pg";

export async function openPlace({ url }) {
  const client = new pg.Client(url);
  await client.connect();
  // Nobody starts with the checkpoint that another one's writes have earned.
  for (const statement of ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CHECKPOINT"])
    await client.query(statement);
  return {
    url,
    async bytes() {
      const { rows } = await client.query(
        `SELECT coalesce(sum(pg_total_relation_size(oid)), 0) AS bytes FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
      );
      return Number(rows[0].bytes);
    },
    close: () => client.end(),
  };
}
