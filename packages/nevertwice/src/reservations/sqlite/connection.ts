/** One SQLite connection that serves a reservation store: every method of the store, carried out synchronously. */
import type { PurgeReport } from "../../core/store.ts";
import type { SqliteDatabase } from "../../stores/sqlite/client.ts";
import type { SqliteSettings } from "../../stores/sqlite/durability.ts";
import { readSettings } from "../../stores/sqlite/durability.ts";
import { toStoreError } from "../../stores/sqlite/errors.ts";
import { migrate } from "../../stores/sqlite/schema.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import type { FoundCommitment, Rules } from "../store.ts";
import { toFoundCommitment } from "../stored-rows.ts";
import { SCHEMA } from "./schema.ts";
import { createTables, type ReservationTables } from "./tables.ts";
import { createTransact, decideAndWrite, type Transact, type TransactOptions } from "./transaction.ts";

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
/** A call of a method, in a form that can be sent to a worker thread. */
export type ConnectionCall = readonly [method: ConnectionMethod, values: readonly unknown[]];

/** Runs calls on a new connection. All errors, also those of connecting, are store errors. */
export function runCalls(
  database: SqliteDatabase,
  options: TransactOptions,
): (call: ConnectionCall) => unknown {
  const connection = withStoreErrors(() => connect(database, options));
  return ([method, values]) =>
    withStoreErrors(() => (connection[method] as (...values: readonly unknown[]) => unknown)(...values));
}

function connect(database: SqliteDatabase, options: TransactOptions): ReservationConnection {
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

function withStoreErrors<Result>(step: () => Result): Result {
  try {
    return step();
  } catch (error) {
    throw toStoreError(error);
  }
}
