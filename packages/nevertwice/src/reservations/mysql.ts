/**
 * Reservations in MySQL or MariaDB, over a pool of mysql2/promise. A group of actions is one transaction: the round trips
 * of one action, however many they are.
 */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/policy.ts";
import type { StoreSettings } from "../core/settings.ts";
import { isClient, type MysqlClient, type Row, rowsOf } from "../stores/mysql/client.ts";
import { isDeadlock } from "../stores/mysql/failures.ts";
import { checkVersion, migrate, migrationSqlOf } from "../stores/mysql/migration.ts";
import { numberOf, textOf } from "../stores/mysql/row.ts";
import { checkSession, type Variables } from "../stores/mysql/session.ts";
import { isLoggedByStatement, settingsOf } from "../stores/mysql/settings.ts";
import { NotWritten, type Page, type ReservationStore } from "./ledger.ts";
import { checkpointOf, commitmentOf, eventOf, isNone, keyOf, resourceOf } from "./mysql/rows.ts";
import { TABLE_NAMES, TABLES } from "./mysql/tables.ts";
import { changeCommitted, transactOnce } from "./mysql/transaction.ts";
import * as sql from "./mysql-sql.ts";

export type { MysqlClient } from "../stores/mysql/client.ts";

export interface MysqlReservationsOptions {
  /** A pool of mysql2/promise. It stays its owner's: closing the store does not end it. */
  readonly client: MysqlClient;
}

export interface MysqlReservations extends ReservationStore {
  /** Makes the tables, or brings them up to this version. Any number of processes may call it at once. */
  migrate(): Promise<void>;
  settings(): Promise<StoreSettings>;
}

/** What `migrate` runs, for whoever lets no application change tables: every statement, on a database without them. */
export function reservationsSql(): string {
  return migrationSqlOf(TABLES);
}

/** More at once would make a long statement; whoever purges asks again. */
const MAX_BITE = 1_000;
/** How often a group is tried again that a deadlock has rolled back. */
const TRIES = 5;

/** Needs its tables: `await store.migrate()` once, or what `reservationsSql()` prints. */
export function mysqlReservations(options: MysqlReservationsOptions): MysqlReservations {
  checkOptions(options, { client: isClient });
  const { client } = options;
  isClient("client", client);
  let checked: Promise<void> | undefined;

  /** Once; after a failure, again with the next call. */
  function ready(): Promise<void> {
    checked ??= check(client).catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  }

  async function rows(statement: string): Promise<readonly Row[]> {
    await ready();
    return rowsOf(client, statement);
  }

  async function page<T>(
    query: { readonly limit: number },
    statement: (limit: number) => string,
    from: (row: Row) => T,
    nameOf: (row: T) => string,
  ): Promise<Page<T>> {
    const found = (await rows(statement(query.limit + 1))).map(from);
    const shown = found.slice(0, query.limit);
    const last = shown.at(-1);
    return found.length > shown.length && last !== undefined
      ? { rows: shown, next: nameOf(last) }
      : { rows: shown };
  }

  return {
    async transact(group, rules) {
      await ready().catch((error: unknown) => {
        throw new NotWritten(error);
      });
      for (let tries = 1; ; tries++) {
        try {
          return await transactOnce(client, group, rules);
        } catch (error) {
          if (tries === TRIES || !(error instanceof NotWritten) || !isDeadlock(error.cause)) throw error;
        }
      }
    },
    async get(namespace, id) {
      const [row] = await rows(sql.getSql(namespace, id));
      return {
        commitment: isNone(row as Row, "id") ? undefined : commitmentOf(row as Row),
        now: nowOf(row),
      };
    },
    commitments: (query) =>
      page(
        query,
        (limit) => sql.commitmentsSql({ ...query, limit }),
        commitmentOf,
        ({ id }) => id,
      ),
    resources: (query) =>
      page(
        query,
        (limit) => sql.resourcesSql({ ...query, limit }),
        resourceOf,
        ({ name }) => name,
      ),
    keys: (query) =>
      page(
        query,
        (limit) => sql.keysSql({ ...query, limit }),
        keyOf,
        ({ id }) => id,
      ),
    events: (query) =>
      page(
        query,
        (limit) => sql.eventsSql({ ...query, limit }, eventNamed(query.after)),
        eventOf,
        ({ subject, number }) => `${number} ${subject}`,
      ),
    checkpoints: (query) =>
      page(
        query,
        (limit) => sql.checkpointsSql({ ...query, limit }),
        checkpointOf,
        ({ id }) => id,
      ),
    async elapsed(namespace, limit) {
      return (await rows(sql.elapsedSql(namespace, limit))).map((row) => textOf(row, "id"));
    },
    async purge(limit) {
      const bite = Math.min(limit, MAX_BITE);
      const ids = (await rows(sql.pastKeysSql(bite))).map((row) => textOf(row, "id"));
      if (ids.length === 0) return { removed: 0, more: false };
      return { removed: await changeCommitted(client, sql.purgeSql(ids)), more: ids.length === bite };
    },
    now: async () => nowOf((await rows(sql.NOW_SQL))[0]),
    settings: () => settingsOf(client, TABLE_NAMES, refusalOf),
    async migrate() {
      await migrate(client, TABLES);
      await ready();
    },
    async close() {},
  };
}

async function check(client: MysqlClient): Promise<void> {
  await checkSession(client);
  await checkVersion(client, TABLES);
}

function refusalOf(found: Variables): string | undefined {
  if (!isLoggedByStatement(found)) return undefined;
  return "binlog_format = STATEMENT takes no transaction at READ COMMITTED: set it to ROW or MIXED.";
}

function nowOf(row: Row | undefined): number {
  return numberOf(row as Row, "now_ms");
}

/** A page of events ends with this one: its number and its subject, which may have any text in it. */
function eventNamed(after: string | undefined): { subject: string; number: number } | undefined {
  if (after === undefined) return undefined;
  const [, number, subject] = /^(\d+) (.*)$/s.exec(after) ?? [];
  if (number === undefined || subject === undefined)
    throw new NevertwiceError("options-invalid", "after is no page's next.");
  return { subject, number: Number(number) };
}
