/**
 * Reservations in Postgres: a group of actions is one transaction, judged by the server's clock. The client is the
 * application's own pool. The tables are made by `migrate()`, or by hand with what `reservationsSql()` says.
 */
import { checkOptions, isBoolean } from "../core/policy.ts";
import {
  askingOf,
  checkClient,
  type PostgresClient,
  type Row,
  type Statement,
} from "../stores/postgres/client.ts";
import { isSchemaName } from "../stores/postgres/migrations.ts";
import { createReady } from "../stores/postgres/ready.ts";
import { judgeSettings, settingsOf } from "../stores/postgres/settings.ts";
import type { Page, PageQuery, ReservationStore } from "./ledger.ts";
import { migrationText, SCHEMA_VERSION, tablesIn } from "./postgres/migrations.ts";
import { checkpointFrom, commitmentOf, eventOf, keyOf, resourceOf, stored } from "./postgres/rows.ts";
import { transact } from "./postgres/transaction.ts";
import { type Paged, statementsOf } from "./postgres-sql.ts";

export type { PostgresClient } from "../stores/postgres/client.ts";

export interface PostgresReservationsOptions {
  /** A `pg` Pool, or the `sql` of postgres.js. A single connection is refused with `store-unsafe`. */
  readonly client: PostgresClient;
  /** The schema of the tables; default: where the connection's search_path finds them. */
  readonly schema?: string | undefined;
  /** Whether statements are prepared by name; default true. False for PgBouncer in transaction mode before 1.21. */
  readonly prepare?: boolean | undefined;
}

export interface PostgresReservations extends ReservationStore {
  /** Creates or upgrades the tables. May be called again, and by many at once. */
  migrate(): Promise<void>;
}

/** What `migrate()` runs, for a DBA to run by hand: one statement, which may be run again. */
export function reservationsSql(options: { readonly schema?: string | undefined } = {}): string {
  checkOptions(options, { schema: isSchemaName });
  return migrationText(options.schema);
}

export function postgresReservations(options: PostgresReservationsOptions): PostgresReservations {
  checkOptions(options, { client: checkClient, schema: isSchemaName, prepare: isBoolean });
  checkClient("client", options.client);
  const { client, schema, prepare = true } = options;
  const statements = statementsOf(tablesIn(schema));
  const asking = askingOf(client, prepare);
  const ready = createReady(asking, statements.check, SCHEMA_VERSION);

  async function ask(statement: Statement, parameters: readonly string[]): Promise<readonly Row[]> {
    const { ask: askReady } = await ready();
    return askReady(statement, parameters);
  }

  /** A page of rows, and the name of the last one if there are more. */
  async function pageOf<Of>(
    { namespace, limit, after = "" }: PageQuery,
    { filters, ...paged }: Omit<Paged, "filters"> & { readonly filters: Readonly<Record<string, unknown>> },
    read: { readonly row: (row: Row) => Of; readonly nameOf: (row: Of) => string },
  ): Promise<Page<Of>> {
    const given = Object.entries(filters).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const values = given.map(([, value]) => value);
    if (!values.every((value) => value.isWellFormed())) return { rows: [] };
    const statement = statements.page({ ...paged, filters: given.map(([name]) => name) });
    const parameters = [stored(namespace), String(limit + 1), stored(after), ...values.map(stored)];
    const rows = await ask(statement, parameters);
    return pageFrom(rows.map(read.row), limit, read.nameOf);
  }

  const idOf = ({ id }: { readonly id: string }) => id;
  return {
    transact: (group, rules) => transact({ ready, asking, statements }, group, rules),
    async get(namespace, id) {
      const [row] = await ask(statements.get, [stored(namespace), stored(id)]);
      const [now, ...found] = row as Row;
      return { commitment: found[0] === null ? undefined : commitmentOf(found), now: Number(now) };
    },
    commitments: ({ resource, requester, state, ...query }) =>
      pageOf(
        query,
        { table: "commitments", order: "id", filters: { resource, requester, state } },
        { row: commitmentOf, nameOf: idOf },
      ),
    resources: ({ name, ...query }) =>
      pageOf(
        query,
        { table: "resources", order: "name", filters: { name } },
        { row: resourceOf, nameOf: (resource) => resource.name },
      ),
    keys: ({ id, commitment, ...query }) =>
      pageOf(
        query,
        { table: "keys", order: "id", filters: { id, commitment } },
        { row: keyOf, nameOf: idOf },
      ),
    checkpoints: (query) =>
      pageOf(
        query,
        { table: "checkpoints", order: "id", filters: {} },
        { row: checkpointFrom, nameOf: idOf },
      ),
    async events({ namespace, limit, after = "0 ", subject }) {
      const space = after.indexOf(" ");
      const [number, afterSubject] = [after.slice(0, space), after.slice(space + 1)];
      const given = subject === undefined ? [] : [subject];
      if (subject?.isWellFormed() === false) return { rows: [] };
      const parameters = [namespace, String(limit + 1), afterSubject, number, ...given].map(stored);
      const rows = await ask(statements.events(subject !== undefined), parameters);
      return pageFrom(rows.map(eventOf), limit, (event) => `${event.number} ${event.subject}`);
    },
    async elapsed(namespace, limit) {
      const rows = await ask(statements.elapsed, [stored(namespace), String(limit)]);
      return rows.map(([id]) => id as string);
    },
    async purge(limit) {
      const [row] = await ask(statements.purge, [String(limit)]);
      return { removed: Number(row?.[1]), more: Number(row?.[0]) === limit };
    },
    async now() {
      const [row] = await ask(statements.now, []);
      return Number(row?.[0]);
    },
    async settings() {
      const rows = await ask(statements.settings, []);
      const unlogged = rows.find(([name]) => name === "unlogged")?.[1] ?? undefined;
      const judged = judgeSettings(settingsOf(rows), unlogged);
      // What is said of fences is of claims only.
      return { ...judged, notes: judged.notes.slice(0, 1) };
    },
    async migrate() {
      const statement = { name: "", text: migrationText(schema) };
      await askingOf(client, false).askReadCommitted(statement, []);
    },
    close: async () => {},
  };
}

/** One row more than the page has was asked for. */
function pageFrom<Of>(rows: readonly Of[], limit: number, nameOf: (row: Of) => string): Page<Of> {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return rows.length > limit && last !== undefined ? { rows: page, next: nameOf(last) } : { rows: page };
}
