/** Checks once that the session of a server and its tables can be used. */
import { type MysqlClient, queryRows } from "./client.ts";
import { checkSession } from "./durability.ts";
import { checkVersion, type MysqlTables } from "./schema.ts";

/** The returned function checks at its first call, and again at the next one after a failure. */
export function createReadiness(client: MysqlClient, tables: MysqlTables): () => Promise<void> {
  let checked: Promise<void> | undefined;

  async function check(): Promise<void> {
    await checkSession(client);
    await checkVersion((statement) => queryRows(client, statement), tables);
  }

  return () => {
    checked ??= check().catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  };
}
