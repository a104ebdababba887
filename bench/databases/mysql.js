/** A MySQL database from which every table was dropped. */
import { readFileSync } from "node:fs";
import { createConnection } from "mysql2/promise";
import { processMicroseconds } from "../processor-time.js";

export async function openDatabase({ url }) {
  const connection = await createConnection(url);
  const database = new URL(url).pathname.slice(1);
  const ask = async (statement) => (await connection.query(statement))[0];
  await ask(`DROP DATABASE IF EXISTS ${database}`);
  await ask(`CREATE DATABASE ${database} CHARACTER SET utf8mb4`);
  await ask(`USE ${database}`);
  const [{ file }] = await ask("SELECT @@pid_file AS file");
  const pid = pidIn(file);
  /** Of the leaves of all indexes, the table's own among them. The files grow by some megabytes at a time. */
  const bytes = async () => {
    for (const table of await ask("SHOW TABLES")) await ask(`ANALYZE TABLE ${Object.values(table)[0]}`);
    const [found] = await ask(
      `SELECT coalesce(sum(stat_value), 0) * @@innodb_page_size AS bytes FROM mysql.innodb_index_stats
       WHERE database_name = '${database}' AND stat_name = 'n_leaf_pages'`,
    );
    return Number(found.bytes);
  };
  return {
    url,
    storeUrl: url,
    bytes,
    /** A table is sorted by its ids, which are random: a call may need any page. */
    memoryBytes: bytes,
    async logBytes() {
      const [{ Value }] = await ask("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'");
      return Number(Value);
    },
    /** Of all its threads. Undefined if it does not run on this computer. */
    async serverMicroseconds() {
      return pid === undefined ? undefined : processMicroseconds(pid);
    },
    close: () => connection.end(),
  };
}

function pidIn(file) {
  try {
    return Number(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}
