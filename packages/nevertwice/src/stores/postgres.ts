/**
 * The Postgres store: every step is one statement for all the calls that wait for it, judged by the server's clock. The
 * client is the application's own pool. Its tables are made by `migrate()`, or by hand with what `migrationSql()` says.
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { FORGOTTEN } from "../core/outcome.ts";
import { partsStart } from "../core/parts.ts";
import { checkOptions, isBoolean } from "../core/policy.ts";
import type { ListRequest, Store } from "../core/store.ts";
import { askingOf, checkClient, isPgPool, type PostgresClient, type Row } from "./postgres/client.ts";
import { createLane, persist } from "./postgres/lane.ts";
import { isSchemaName, migrationText, tablesIn } from "./postgres/migrations.ts";
import { createReady } from "./postgres/ready.ts";
import { judgeSettings, settingsOf } from "./postgres/settings.ts";
import {
  abandonStep,
  claimStep,
  completeStep,
  fromPrimary,
  readStep,
  recordOf,
  renewStep,
} from "./postgres/steps.ts";
import { createSubscription, type PostgresSubscriber } from "./postgres/subscription.ts";
import { createTelling } from "./postgres/telling.ts";
import { type Statement, statementsOf } from "./postgres-sql.ts";

export type { PostgresClient } from "./postgres/client.ts";
export type { PostgresSubscriber } from "./postgres/subscription.ts";

export interface PostgresStoreOptions {
  /** A `pg` Pool, or the `sql` of postgres.js. A single connection is refused with `store-unsafe`. */
  readonly client: PostgresClient;
  /** Hears when a record is settled, so that waiters are woken at once; without it they poll. */
  readonly subscriber?: PostgresSubscriber;
  /** Whether statements are prepared by name; default true. False for PgBouncer in transaction mode before 1.21. */
  readonly prepare?: boolean;
  /** The schema of the tables; default: where the connection's search_path finds them. */
  readonly schema?: string;
}

export interface PostgresStore extends Store {
  /** Creates or upgrades the tables. May be called again, and by many at once. */
  migrate(): Promise<void>;
}

/** What `migrate()` runs, for a DBA to run by hand: one statement, which may be run again. */
export function migrationSql(options: { readonly schema?: string } = {}): string {
  checkOptions(options, { schema: isSchemaName });
  return migrationText(options.schema);
}

export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  checkOptions(options, {
    client: checkClient,
    subscriber: checkSubscriber,
    prepare: isBoolean,
    schema: isSchemaName,
  });
  checkClient("client", options.client);
  const { client, subscriber, prepare = true, schema } = options;
  checkRoom(client, subscriber);
  const statements = statementsOf(tablesIn(schema), nameOf);
  const asking = askingOf(client, prepare);
  const ready = createReady(asking, statements.check);
  const subscription = subscriber && createSubscription(subscriber, async () => (await ready()).channel);

  async function ask(statement: Statement, parameters: readonly string[]): Promise<readonly Row[]> {
    const { ask: askReady } = await ready();
    return askReady(statement, parameters);
  }

  const telling =
    subscription &&
    createTelling(async (payload) => {
      const { ask: askReady, channel } = await ready();
      await askReady(statements.notify, [channel, payload]);
    });
  const settled = (ids: readonly string[]) => telling?.tell(ids);

  const { claim, complete, abandon, renew, read } = statements;
  const claims = createLane(ask, { ...claimStep, step: claim });
  const completions = createLane(ask, { ...completeStep, step: complete, settled });
  const abandons = createLane(ask, { ...abandonStep, step: abandon, settled });
  const renewals = createLane(ask, { ...renewStep, step: renew });
  const reads = createLane(ask, { ...readStep, step: read });

  return {
    claim: (request) => claims.run(request),
    complete: (request) => completions.run(request),
    abandon: (request) => abandons.run(request),
    renew: (request) => renewals.run(request),

    read: async (id) => (await reads.run({ id })).record,

    async purge(limit) {
      const [row] = await ask(statements.purge, [String(limit)]);
      return { removed: Number(row?.[1]), more: Number(row?.[0]) === limit };
    },

    async list({ namespace, scope, state, limit, after = "" }: ListRequest) {
      const prefix = partsStart(namespace, scope);
      const rows = fromPrimary(await ask(statements.list, [prefix, after, state ?? "", String(limit + 1)]));
      const found = rows.flatMap((row) => recordOf(row) ?? []);
      const records = found.slice(0, limit);
      return found.length > limit ? { records, next: records.at(-1)?.id } : { records };
    },

    async forget({ id, fence, reopen = false }) {
      const parameters = [id, String(fence), FORGOTTEN, String(reopen)];
      const isForgotten = await persist(async () => (await ask(statements.forget, parameters)).length > 0);
      if (isForgotten) settled([id]);
      return isForgotten;
    },

    async settings() {
      return judgeSettings(settingsOf(await ask(statements.settings, [])));
    },

    async migrate() {
      const statement = { name: "", text: migrationText(schema) };
      await askingOf(client, false).askReadCommitted(statement, []);
    },

    async close() {
      await telling?.done();
      await subscription?.close();
    },

    ...(subscription && { watch: subscription.watch }),
  };
}

/** The same name means the same text on every connection, which the tables of another schema would break. */
function nameOf(what: string, text: string): string {
  return `nevertwice_${what}_${hash("sha256", text, "hex").slice(0, 16)}`;
}

function checkSubscriber(name: string, value: unknown): void {
  if (typeof value === "function" && !("unsafe" in value)) return;
  checkClient(name, value);
}

/** A pool that has one connection has none left once the subscriber took it. */
function checkRoom(client: PostgresClient, subscriber: PostgresSubscriber | undefined): void {
  if (client !== subscriber || !isPgPool(client)) return;
  const { max } = (client as { readonly options?: { readonly max?: number } }).options ?? {};
  if (max === undefined || max > 1) return;
  throw new NevertwiceError(
    "options-invalid",
    "subscriber is the client's own pool, which has one connection; give it max 2 or more, or a pool of its own.",
  );
}
