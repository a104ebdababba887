/**
 * Reservations in Postgres: a group of actions is one transaction, by the server's clock. The client is the application's
 * pool. The tables are created by `migrate()`, or by hand with the SQL of `reservationsSql()`.
 */
import { checkOptions, isBoolean } from "../core/option-checks.ts";
import {
  cancelledAfter,
  checkClient,
  type PostgresClient,
  type PostgresRow,
  type Statement,
} from "../stores/postgres/client.ts";
import { judgeDurability, toPostgresSettings } from "../stores/postgres/durability.ts";
import { createOperatorStatements, type RunInTransaction } from "../stores/postgres/operator-statements.ts";
import { createReadiness, isSchemaName } from "../stores/postgres/schema.ts";
import { createRunner, listenToPool } from "../stores/postgres/statement-runner.ts";
import { createOpenTransactions } from "./open-transactions.ts";
import { createActionsInside } from "./postgres/inside.ts";
import {
  escapeText,
  toCheckpoint,
  toCommitment,
  toEvent,
  toKey,
  toResource,
  unescapeText,
} from "./postgres/rows.ts";
import { migrationText, SCHEMA_VERSION, tableNames } from "./postgres/schema.ts";
import { GIVEN_UP_MS, transact, transactSkippingLocked } from "./postgres/transaction.ts";
import { createStatements, type PageShape } from "./postgres-sql.ts";
import type { Page, PageQuery, ReservationStore } from "./store.ts";
import { type Readable, toFoundCommitment, toPage } from "./stored-rows.ts";

export type { PostgresClient } from "../stores/postgres/client.ts";

/** Options of `postgresReservations`. */
export interface PostgresReservationsOptions {
  /** A `pg` Pool, or the `sql` of postgres.js. A single connection throws `store-unsafe`. */
  readonly client: PostgresClient;
  /** The schema of the tables; default: the search_path of the connection. */
  readonly schema?: string | undefined;
  /** Whether to use named prepared statements; default true. Set it to false for PgBouncer before 1.21 in transaction mode. */
  readonly prepare?: boolean | undefined;
}

/** A reservation store on Postgres. */
export interface PostgresReservations extends ReservationStore {
  /** Creates or upgrades the tables. It may be called again, and by several processes at the same time. */
  migrate(): Promise<void>;
}

/**
 * The SQL that `migrate()` runs, for a DBA to run by hand: one statement, which may be run again.
 * @throws `options-invalid`
 */
export function reservationsSql(
  options: {
    /**
     * The schema of the tables.
     * @default the search_path
     */
    readonly schema?: string | undefined;
  } = {},
): string {
  checkOptions(options, { schema: isSchemaName });
  return migrationText(options.schema);
}

/**
 * Keeps reservations in Postgres. Call `migrate` once, or run `reservationsSql`, before the first action.
 * @throws `options-invalid`
 * @throws `store-unsafe`
 * @example
 * ```ts server
 * import pg from "pg";
 * import { postgresReservations } from "nevertwice/reservations/postgres";
 *
 * const store = postgresReservations({ client: new pg.Pool({ connectionString: process.env.DATABASE_URL }) });
 * await store.migrate();
 * ```
 */
export function postgresReservations(options: PostgresReservationsOptions): PostgresReservations {
  checkOptions(options, { client: checkClient, schema: isSchemaName, prepare: isBoolean });
  checkClient("client", options.client);
  const { client, schema, prepare = true } = options;
  const statements = createStatements(tableNames(schema));
  const asking = createRunner(client, prepare);
  const readiness = createReadiness(asking, statements.check, SCHEMA_VERSION);
  const { ready, recheckServer } = readiness;
  const stopListening = listenToPool(client, recheckServer);

  async function ask(statement: Statement, parameters: readonly string[]): Promise<readonly PostgresRow[]> {
    const { run } = await ready();
    return run(statement, parameters, cancelledAfter(GIVEN_UP_MS));
  }

  const { bounded, inTurn } = createOperatorStatements({ client, runner: asking, readiness });

  /** The same for a statement that is not about single rows. */
  function askWithin(
    within: RunInTransaction,
    statement: Statement,
    parameters: readonly string[],
  ): Promise<readonly PostgresRow[]> {
    return within((run) => run(statement, parameters), cancelledAfter(GIVEN_UP_MS));
  }

  async function readPage<Of>(
    { namespace, limit, after = "" }: PageQuery,
    {
      filters,
      ...paged
    }: Omit<PageShape, "filters"> & { readonly filters: Readonly<Record<string, unknown>> },
    row: (row: PostgresRow) => Readable<Of>,
  ): Promise<Page<Of>> {
    const given = Object.entries(filters).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const values = given.map(([, value]) => value);
    if (!values.every((value) => value.isWellFormed())) return { rows: [] };
    const statement = statements.page({ ...paged, filters: given.map(([name]) => name) });
    const parameters = [
      escapeText(namespace),
      String(limit + 1),
      escapeText(after),
      ...values.map(escapeText),
    ];
    // In every table, the name is the column after the namespace.
    return toPage(await askWithin(inTurn, statement, parameters), limit, row, (last) =>
      unescapeText(String(last[1])),
    );
  }

  const context = { ready, asking, statements, open: createOpenTransactions() };
  return {
    transact: (group, rules) => transact(context, group, rules),
    transactSkippingLocked: (group, rules) => transactSkippingLocked(context, group, rules),
    inside: createActionsInside(context),
    async get(namespace, id) {
      const [row] = await ask(statements.get, [escapeText(namespace), escapeText(id)]);
      const [now, ...found] = row as PostgresRow;
      return toFoundCommitment(found[0] === null ? undefined : toCommitment(found), Number(now));
    },
    commitments: ({ resource, requester, state, ...query }) =>
      readPage(
        query,
        { table: "commitments", order: "id", filters: { resource, requester, state } },
        toCommitment,
      ),
    resources: ({ name, ...query }) =>
      readPage(query, { table: "resources", order: "name", filters: { name } }, toResource),
    keys: ({ id, commitment, ...query }) =>
      readPage(query, { table: "keys", order: "id", filters: { id, commitment } }, toKey),
    checkpoints: (query) => readPage(query, { table: "checkpoints", order: "id", filters: {} }, toCheckpoint),
    async events({ namespace, limit, after = "0 ", subject }) {
      const space = after.indexOf(" ");
      const [number, afterSubject] = [after.slice(0, space), after.slice(space + 1)];
      const given = subject === undefined ? [] : [subject];
      if (subject?.isWellFormed() === false) return { rows: [] };
      const parameters = [namespace, String(limit + 1), afterSubject, number, ...given].map(escapeText);
      const rows = await askWithin(inTurn, statements.events(subject !== undefined), parameters);
      return toPage(rows, limit, toEvent, (last) => `${last[2]} ${unescapeText(String(last[1]))}`);
    },
    async elapsed(namespace, limit, after) {
      const given = [
        escapeText(namespace),
        String(limit),
        ...(after === undefined ? [] : [escapeText(after)]),
      ];
      const rows = await askWithin(bounded, statements.elapsed(after !== undefined), given);
      return rows.map(([id]) => unescapeText(id as string));
    },
    async purge(limit) {
      const [row] = await askWithin(bounded, statements.purge, [String(limit)]);
      return { removed: Number(row?.[1]), more: Number(row?.[0]) === limit };
    },
    async now() {
      const [row] = await ask(statements.now, []);
      return Number(row?.[0]);
    },
    async settings() {
      const rows = await ask(statements.settings, []);
      const unlogged = rows.find(([name]) => name === "unlogged")?.[1] ?? undefined;
      const judged = judgeDurability(toPostgresSettings(rows), unlogged);
      // The other notes are about fences, which only claims have.
      return { ...judged, notes: judged.notes.slice(0, 1) };
    },
    async migrate() {
      const statement = { name: "", text: migrationText(schema) };
      await createRunner(client, false).runReadCommitted(statement, []);
    },
    close: async () => stopListening(),
  };
}
