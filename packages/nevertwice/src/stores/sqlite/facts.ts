/** Reads the settings of a live connection. */
import { lookUp, prepareQuery, type SqliteDatabase } from "./driver.ts";
import * as sql from "./session-sql.ts";
import type { Facts } from "./settings.ts";

export function readFacts(database: SqliteDatabase): Facts {
  const main = prepareQuery(database, sql.DATABASE_LIST)
    .all()
    .find(([, name]) => name === "main");
  return {
    version: String(lookUp(database, sql.VERSION)),
    journalMode: String(lookUp(database, sql.JOURNAL_MODE)),
    synchronous: Number(lookUp(database, sql.SYNCHRONOUS)),
    isInMemory: !main?.[2],
    isExclusive: lookUp(database, sql.LOCKING_MODE) === "exclusive",
    isFlushedToDisk: process.platform !== "darwin" || lookUp(database, sql.FULL_FSYNC) === 1,
  };
}
