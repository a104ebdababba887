/**
 * Records in Postgres, through the application's own pool. Every step is one statement for all calls that wait for it, and
 * the server's clock decides when leases and retention end. `migrate()` creates the tables, or an operator runs the output of
 * `migrationSql()`.
 */
import { hash } from "node:crypto";
import { damagedRecord } from "../core/damaged-record.ts";
import type { StoreSettings } from "../core/durability.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isBoolean } from "../core/option-checks.ts";
import { FORGOTTEN } from "../core/outcome.ts";
import type { ForgetRequest, KeepStepRequest, WatchRequest } from "../core/store.ts";
import type { TransactionalStore } from "../core/store-transactions.ts";
import type { Lists } from "./listing.ts";
import {
  allCancelled,
  cancelledAfter,
  checkClient,
  isPgPool,
  type PostgresClient,
  type RunStatement,
  type Statement,
} from "./postgres/client.ts";
import { judgeDurability, toPostgresSettings } from "./postgres/durability.ts";
import { createHeldSearch } from "./postgres/held-search.ts";
import { toDigest, withDigest } from "./postgres/ids.ts";
import { createLists } from "./postgres/lists.ts";
import { createMarking, watchMarked } from "./postgres/marks.ts";
import { createNotifier, NOTIFY_MS } from "./postgres/notifier.ts";
import { createOperatorRunners, type OperatorServer } from "./postgres/operator-statements.ts";
import { createPurge } from "./postgres/purge.ts";
import { CHECK_MS, createReadiness, isSchemaName, migrationText, recordTables } from "./postgres/schema.ts";
import { createRunner, createStepBatch, listenToPool, untilAnswered } from "./postgres/statement-runner.ts";
import { abandonStep, claimStep, completeStep, keepStepStep, readStep, renewStep } from "./postgres/steps.ts";
import { createTransactions } from "./postgres/transactions.ts";
import { createSubscription, type PostgresSubscriber } from "./postgres/watch.ts";
import { createStatements } from "./postgres-sql.ts";

export type { PostgresClient } from "./postgres/client.ts";
export type { PostgresSubscriber } from "./postgres/watch.ts";

/** Options of `postgresStore`. */
export interface PostgresStoreOptions {
  /** A `pg` Pool, or the `sql` of postgres.js. A single connection is refused with `store-unsafe`. */
  readonly client: PostgresClient;
  /** Receives a notification when a record is settled, which wakes its waiters at once; without it they poll. */
  readonly subscriber?: PostgresSubscriber;
  /**
   * Whether statements are prepared by name. False for PgBouncer in transaction mode before 1.21.
   * @default true
   */
  readonly prepare?: boolean;
  /** The schema of the tables; default: where the connection's search_path finds them. */
  readonly schema?: string;
}

/** A store on Postgres. `guard.transaction` works on its pool. */
export interface PostgresStore extends TransactionalStore {
  /** Creates the tables, or migrates them to this version. Several processes may call it at the same time. */
  migrate(): Promise<void>;
}

/**
 * The statement that `migrate()` runs, for operators that run migrations themselves. It may be run again.
 * @throws `options-invalid`
 */
export function migrationSql(
  options: {
    /** The schema of the tables. Without it, the search_path decides. */
    readonly schema?: string;
  } = {},
): string {
  checkOptions(options, { schema: isSchemaName });
  return migrationText(options.schema);
}

const OPTION_CHECKS = {
  client: checkClient,
  subscriber: checkSubscriber,
  prepare: isBoolean,
  schema: isSchemaName,
};

/**
 * Keeps records in Postgres. Call `migrate` once, or run `migrationSql`, before the first call.
 * @throws `options-invalid`
 * @throws `store-unsafe`
 * @example
 * ```ts server
 * import pg from "pg";
 * import { createGuard } from "nevertwice";
 * import { postgresStore } from "nevertwice/stores/postgres";
 *
 * const store = postgresStore({ client: new pg.Pool({ connectionString: process.env.DATABASE_URL }) });
 * await store.migrate();
 * export const guard = createGuard({ store });
 * ```
 */
export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  checkOptions(options, OPTION_CHECKS);
  checkClient("client", options.client);
  const { client, subscriber, prepare = true, schema } = options;
  checkRoom(client, subscriber);
  const tables = recordTables(schema);
  const statements = createStatements(tables, statementName);
  const runner = createRunner(client, prepare);
  const readiness = createReadiness(runner, statements.check);
  const { ready, recheckServer, reconnects } = readiness;
  /** Whether the tables have the columns that were added, as the last check said. */
  let hasSteps = true;
  const stopListening = listenToPool(client, recheckServer);
  const subscription = subscriber && createSubscription(subscriber, async () => (await ready()).channel);

  const run: RunStatement = async (statement, parameters, isCancelled) => {
    const server = await ready();
    hasSteps = server.hasSteps;
    const { unmigrated = statement } = statement;
    return server.run(hasSteps ? statement : unmigrated, parameters, isCancelled);
  };

  const notifier = createNotifier(async (payload) => {
    const server = await ready();
    await server.run(statements.notify, [server.channel, payload], cancelledAfter(NOTIFY_MS));
  });
  const onSettled = (ids: readonly string[]) => notifier.notify(ids);
  const mark = createMarking(run, statements.mark, () => hasSteps);

  const { claim, complete, abandon, renew, read } = statements;
  const claims = createStepBatch(run, { ...claimStep, step: claim, unflushed: statements.unflushedClaim });
  const completions = createStepBatch(run, { ...completeStep, step: complete, onSettled });
  const abandons = createStepBatch(run, { ...abandonStep, step: abandon, onSettled });
  const renewals = createStepBatch(run, { ...renewStep, step: renew });
  const steps = createStepBatch(run, { ...keepStepStep, step: statements.keepStep });
  const reads = createStepBatch(run, { ...readStep, step: read });

  const transactions = createTransactions({
    clients: subscriber === undefined ? [client] : [client, subscriber],
    records: tables.records,
    isPrepared: prepare,
    isMigrated: () => hasSteps,
    ready: async () => {
      hasSteps = (await ready()).hasSteps;
    },
    run,
    nameStatement: statementName,
    announce: (id) => subscription && onSettled([id]),
  });

  return {
    transactions,
    claim: (request) => claims.run(withDigest(request)),
    complete: (request) => completions.run(withDigest(request)),
    abandon: (request) => abandons.run(withDigest(request)),
    renew: (request) => renewals.run(withDigest(request)),

    // Undefined while the tables lack the column: work with steps is refused before its first step.
    get keepStep() {
      return hasSteps ? (request: KeepStepRequest) => steps.run(withDigest(request)) : undefined;
    },

    read: async (id, { signal } = {}) =>
      (await readiness.rechecked(reads.run({ id: toDigest(id), signal }))).record,
    keepsHistory: true,

    ...createOperatorSteps({ client, runner, readiness }, statements),

    async forget(asked) {
      const request = withDigest(asked);
      const isForgotten = await forgetRecord(run, statements.forget, request);
      if (isForgotten) onSettled([request.id]);
      return isForgotten;
    },

    settings: () => readSettings(run, statements.settings),

    async migrate() {
      await migrateTables(client, schema);
      hasSteps = true;
      recheckServer();
    },

    async close() {
      await notifier.done();
      await subscription?.close();
      stopListening();
    },

    usesSignal: "aborted",
    get reconnects() {
      return reconnects();
    },
    ...(subscription && {
      watch: (request: WatchRequest) => watchMarked(subscription, mark, withDigest(request)),
    }),
  };
}

async function migrateTables(client: PostgresClient, schema: string | undefined): Promise<void> {
  const statement = { name: "", text: migrationText(schema) };
  await createRunner(client, false).runReadCommitted(statement, []);
}

function createOperatorSteps(
  server: OperatorServer,
  statements: ReturnType<typeof createStatements>,
): Pick<TransactionalStore, "purge"> & Lists {
  const { bounded, searching, inTurn } = createOperatorRunners(server, statements.listSettings);
  const searchHeld = createHeldSearch(statements);
  return {
    purge: createPurge(bounded, statements.purge, (bound) => searchHeld(searching, 1, bound)),
    ...createLists(inTurn, statements, searchHeld),
  };
}

function forgetRecord(run: RunStatement, statement: Statement, request: ForgetRequest): Promise<boolean> {
  const { id, fence, reopen = false } = request;
  const parameters = [id, String(fence), FORGOTTEN, String(reopen)];
  return untilAnswered(async () => {
    const [row] = await run(statement, parameters, allCancelled([request]));
    if (typeof row?.[1] === "string") throw damagedRecord(id, row[1]);
    return row !== undefined;
  });
}

async function readSettings(run: RunStatement, statement: Statement): Promise<StoreSettings> {
  return judgeDurability(toPostgresSettings(await run(statement, [], cancelledAfter(CHECK_MS))));
}

/** Contains a hash of the text: on one connection, stores with different schemas must not share a name. */
function statementName(purpose: string, text: string): string {
  return `nevertwice_${purpose}_${hash("sha256", text, "hex").slice(0, 16)}`;
}

function checkSubscriber(name: string, value: unknown): void {
  if (typeof value === "function" && !("unsafe" in value)) return;
  checkClient(name, value);
}

/** A pool with one connection has none left when the subscriber has taken it. */
function checkRoom(client: PostgresClient, subscriber: PostgresSubscriber | undefined): void {
  if (client !== subscriber || !isPgPool(client)) return;
  const { max } = (client as { readonly options?: { readonly max?: number } }).options ?? {};
  if (max === undefined || max > 1) return;
  throw new NevertwiceError(
    "options-invalid",
    "subscriber is the client's pool, which has one connection; set its max to 2 or more, or hand in another pool.",
  );
}
