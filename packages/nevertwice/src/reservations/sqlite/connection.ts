/** One SQLite connection that serves a reservation store: every method of the store, carried out synchronously. */
import type { PurgeReport } from "../../core/store.ts";
import type { SqliteDatabase } from "../../stores/sqlite/client.ts";
import type { ConnectionOptions } from "../../stores/sqlite/connection-calls.ts";
import type { SqliteSettings } from "../../stores/sqlite/durability.ts";
import { readSettings } from "../../stores/sqlite/durability.ts";
import { migrate } from "../../stores/sqlite/schema.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import type { FoundCommitment, Rules } from "../store.ts";
import { toFoundCommitment } from "../stored-rows.ts";
import { SCHEMA } from "./schema.ts";
import { createTables, type ReservationTables } from "./tables.ts";
import { createTransact, decideAndWrite, type Transact } from "./transaction.ts";

export type ReservationConnection = Pick<
  ReservationTables,
  "commitments" | "resources" | "keys" | "events" | "checkpoints"
> & {
  readonly transact: Transact;
  /** One action in the transaction that the application has open on this connection. */
  act(request: ActionRequest, rules: Rules): Answer;
  get(namespace: string, id: string): FoundCommitment;
  elapsed(namespace: string, limit: number, after: string | undefined): readonly string[];
  purge(limit: number): PurgeReport;
  facts(): SqliteSettings;
};

export type ConnectionMethod = keyof ReservationConnection;
/** Prepares the tables. */
export function connect(database: SqliteDatabase, options: ConnectionOptions): ReservationConnection {
  const { clock, waiting } = options;
  waiting(() => migrate(database, SCHEMA));
  const tables = createTables(database);
  return {
    ...tables,
    transact: createTransact(database, tables, options),
    act: (request, rules) => decideAndWrite(tables, clock, [request], rules).answers[0] as Answer,
    get(namespace, id) {
      // From before the read: a hold that is renewed during the read must not look elapsed.
      const now = clock.now();
      return toFoundCommitment(tables.readCommitment(namespace, id), now);
    },
    elapsed: (namespace, limit, after) => tables.elapsed(namespace, clock.now(), limit, after),
    purge(limit) {
      const now = clock.now();
      if (!tables.hasPurgeable(now)) return { removed: 0, more: false };
      const removed = waiting(() => tables.purge(now, limit));
      return { removed, more: tables.hasPurgeable(now) };
    },
    facts: () => readSettings(database),
  };
}
