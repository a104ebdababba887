/**
 * How many objects share the records. The object of a key depends on that number: with another number, a key would lead to
 * an object that has never heard of it, and completed work would run again. So every object remembers the number that it
 * was first used with and refuses any other. An object that is new asks for a confirmation by the first object, since all
 * users of the records, whatever number they have, agree on which object that is.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { lookUp, type SqliteDatabase } from "../sqlite/client.ts";
import type { CallMessage } from "./messages.ts";

const TABLE = "nevertwice_layout";

export interface ObjectLayout {
  /** False if the first object must confirm the number first. Throws `store-unsafe` if it is wrong. */
  allows(message: CallMessage): boolean;
}

export function openLayout(database: SqliteDatabase): ObjectLayout {
  database.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (shards INTEGER NOT NULL)`);
  let known = lookUp(database, `SELECT shards FROM ${TABLE}`);
  return {
    allows({ shard, shards, isConfirmed = false }) {
      if (known === shards) return true;
      if (known !== undefined) throw otherShards(Number(known), shards);
      if (shard !== 0 && !isConfirmed) return false;
      database.prepare(`INSERT INTO ${TABLE} VALUES (?)`).run(shards);
      known = shards;
      return true;
    },
  };
}

function otherShards(known: number, given: number): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `these records are spread over ${known} objects, but the store was created with shards: ${given}, which would not find them; set shards: ${known}, or use another name for new records.`,
  );
}
