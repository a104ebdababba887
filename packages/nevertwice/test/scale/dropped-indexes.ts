/** Drops the indexes of lists, as if the table were of a release without them. */
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { LIST_INDEXES } from "../../src/stores/postgres/lists-sql.ts";

const SQLITE_INDEXES = ["nevertwice_records_by_claim"];
const POSTGRES_INDEXES = LIST_INDEXES.map(([name]) => name);

export async function dropListIndexes(url: string): Promise<void> {
  if (url.startsWith("sqlite:")) {
    const database = new DatabaseSync(url.slice("sqlite:".length));
    for (const name of SQLITE_INDEXES) database.exec(`DROP INDEX ${name}`);
    database.close();
    return;
  }
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`DROP INDEX ${POSTGRES_INDEXES.join(", ")}`);
  await client.end();
}
