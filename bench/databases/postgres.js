/** A Postgres from which every table was dropped. */
import pg from "pg";
import { familyMicroseconds, parentOf } from "../processor-time.js";

export async function openDatabase({ url }) {
  const client = new pg.Client(url);
  await client.connect();
  // A checkpoint that the writes of the last library made due must not fall into the run of the next.
  for (const statement of ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CHECKPOINT"])
    await client.query(statement);
  const { rows: backends } = await client.query("SELECT pg_backend_pid() AS pid");
  return {
    url,
    storeUrl: url,
    /** Of the write-ahead log. */
    async logBytes() {
      const { rows } = await client.query("SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes");
      return Number(rows[0].bytes);
    },
    /** Of all its processes. Undefined if it does not run on this computer. */
    async serverMicroseconds() {
      try {
        return familyMicroseconds(parentOf(backends[0].pid));
      } catch {
        return undefined;
      }
    },
    async bytes() {
      const { rows } = await client.query(
        `SELECT coalesce(sum(pg_total_relation_size(oid)), 0) AS bytes FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
      );
      return Number(rows[0].bytes);
    },
    /** Of the indexes: a new row goes to the end of its table, but may go anywhere in an index. */
    async memoryBytes() {
      const { rows } = await client.query(
        `SELECT coalesce(sum(pg_indexes_size(oid)), 0) AS bytes FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
      );
      return Number(rows[0].bytes);
    },
    close: () => client.end(),
  };
}
