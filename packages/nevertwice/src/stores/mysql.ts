/**
 * Records in MySQL or MariaDB, over a pool of mysql2/promise. Each step reads, decides, and writes over exactly what it
 * read, in single statements that commit by themselves and are judged by the server's clock: a first call takes four
 * round trips, a replay one.
 */

import { utf8Bytes } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/policy.ts";
import { viewOf } from "../core/record.ts";
import type { Store } from "../core/store.ts";
import { randomToken } from "../core/token.ts";
import { createSteps, type Found, type Written } from "./compare-and-set/steps.ts";
import { change, isClient, type MysqlClient, rowsOf } from "./mysql/client.ts";
import { failure, isOvertaken } from "./mysql/failures.ts";
import { checkVersion, migrate, migrationSqlOf } from "./mysql/migration.ts";
import { foundIn, millisOf, recordOf, textOf } from "./mysql/row.ts";
import { checkSession } from "./mysql/session.ts";
import { settingsOf } from "./mysql/settings.ts";
import * as sql from "./mysql-sql.ts";

export type { MysqlClient } from "./mysql/client.ts";

export interface MysqlStoreOptions {
  /** A pool of mysql2/promise. It stays its owner's: closing the store does not end it. */
  readonly client: MysqlClient;
}

export interface MysqlStore extends Store {
  /** Makes the tables, or brings them up to this version. Any number of processes may call it at once. */
  migrate(): Promise<void>;
}

/** What `migrate` runs, for whoever lets no application change tables: every statement, on a database without them. */
export function migrationSql(): string {
  return migrationSqlOf(sql.TABLES);
}

/** More at once would make a long statement; whoever purges asks again. */
const MAX_BITE = 1_000;

/** Needs its tables: `await store.migrate()` once, or what `migrationSql()` prints. */
export function mysqlStore(options: MysqlStoreOptions): MysqlStore {
  checkOptions(options, { client: isClient });
  const { client } = options;
  isClient("client", client);
  let maxOutcomeBytes = Number.POSITIVE_INFINITY;
  let checked: Promise<void> | undefined;

  async function check(): Promise<void> {
    maxOutcomeBytes = await checkSession(client);
    await checkVersion(client, sql.TABLES);
  }

  /** Once; after a failure, again with the next call. */
  function ready(): Promise<void> {
    checked ??= check().catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  }

  async function read(id: string): Promise<Found> {
    await ready();
    const [row] = await rowsOf(client, sql.readSql(id));
    return foundIn(row);
  }

  async function write(id: string, found: Found, record: Found["record"]): Promise<Written> {
    try {
      if (record === undefined) {
        const { affectedRows } = await change(client, sql.deleteSql(id, found.mark));
        return affectedRows > 0 ? { fence: 0 } : { overtakenBy: undefined };
      }
      const mark = randomToken();
      const { insertId } = await change(
        client,
        found.record === undefined
          ? sql.insertSql(id, record, found, mark)
          : sql.updateSql(id, record, found, mark),
      );
      return insertId > 0 ? { fence: insertId } : { overtakenBy: undefined };
    } catch (error) {
      if (isOvertaken(error)) return { overtakenBy: undefined };
      throw failure(error);
    }
  }

  const steps = createSteps({ read, write });

  return {
    get maxOutcomeBytes() {
      return maxOutcomeBytes;
    },

    claim: (request) => steps.claim(request),

    async complete(request) {
      await ready();
      const bytes = utf8Bytes(request.outcome);
      if (bytes <= maxOutcomeBytes) return steps.complete(request);
      // The server would cut the connection in the middle of it, and be asked the same again and again.
      throw new NevertwiceError(
        "options-invalid",
        `an outcome of ${bytes} bytes does not fit; max_allowed_packet leaves room for ${maxOutcomeBytes}.`,
      );
    },

    abandon: steps.abandon,
    renew: steps.renew,
    read: steps.read,
    forget: steps.forget,

    async purge(limit) {
      await ready();
      const bite = Math.min(limit, MAX_BITE);
      const rows = await rowsOf(client, sql.expiredSql(bite));
      if (rows.length === 0) return { removed: 0, more: false };
      try {
        const { affectedRows } = await change(client, sql.purgeSql(rows.map((row) => textOf(row, "id"))));
        return { removed: affectedRows, more: rows.length === bite };
      } catch (error) {
        throw failure(error);
      }
    },

    async list(request) {
      await ready();
      const rows = await rowsOf(client, sql.listSql({ ...request, limit: request.limit + 1 }));
      const records = rows
        .slice(0, request.limit)
        .map((row) => viewOf(recordOf(row), millisOf(row, "now_us")));
      return rows.length > request.limit ? { records, next: records.at(-1)?.id } : { records };
    },

    settings: () => settingsOf(client, ["nevertwice_records"]),

    async migrate() {
      await migrate(client, sql.TABLES);
      await ready();
    },

    async close() {},
  };
}
