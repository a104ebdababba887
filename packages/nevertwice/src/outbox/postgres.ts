/** The outbox in Postgres, on the application's pool. */
import {
  cancelledAfter,
  microseconds,
  type PostgresClient,
  type PostgresRow,
  plainArray,
  type Statement,
  textArray,
} from "../stores/postgres/client.ts";
import { createOperatorStatements, type RunInTransaction } from "../stores/postgres/operator-statements.ts";
import { createReadiness } from "../stores/postgres/schema.ts";
import { createRunner, listenToPool } from "../stores/postgres/statement-runner.ts";
import { createSubscription, type PostgresSubscriber, type Subscription } from "../stores/postgres/watch.ts";
import { type CountedGroup, type MessageRow, rowsToRead, toFigures, toMs, toPage } from "./message-rows.ts";
import { migrationText, outboxTables, SCHEMA_VERSION } from "./postgres/schema.ts";
import { CHANNEL, createStatements, insertText, wakeId } from "./postgres-sql.ts";
import type { ClaimedRow, OutboxStore } from "./store.ts";

export interface PostgresOutboxOptions {
  /** A `pg` Pool, or the `sql` of postgres.js. */
  readonly client: PostgresClient;
  readonly subscriber?: PostgresSubscriber | undefined;
  readonly schema?: string | undefined;
}

/** A statement without an answer for this long is cancelled. */
const GIVEN_UP_MS = 10_000;
/** The longest wait for a row that another relay changes at the moment. */
const LOCK_TIMEOUT_MS = 5_000;

export function postgresOutbox({ client, subscriber, schema }: PostgresOutboxOptions): OutboxStore {
  const tables = outboxTables(schema);
  const statements = createStatements(tables);
  const asking = createRunner(client, false);
  const readiness = createReadiness(asking, statements.check, SCHEMA_VERSION);
  const { ready, recheckServer } = readiness;
  const stopListening = listenToPool(client, recheckServer);
  let subscription: Subscription | undefined;

  async function ask(
    statement: Statement,
    ...parameters: readonly string[]
  ): Promise<readonly PostgresRow[]> {
    const { run } = await ready();
    return run(statement, parameters, cancelledAfter(GIVEN_UP_MS));
  }

  const { inTurn } = createOperatorStatements({ client, runner: asking, readiness });
  const transact: RunInTransaction = async (work, isCancelled) => {
    await ready();
    return asking.transact(work, { isCancelled, lockTimeoutMs: LOCK_TIMEOUT_MS });
  };

  /** The same for a statement of an operator. */
  function askInTurn(
    statement: Statement,
    ...parameters: readonly string[]
  ): Promise<readonly PostgresRow[]> {
    return inTurn((run) => run(statement, parameters), cancelledAfter(GIVEN_UP_MS));
  }

  /** Runs a statement that deletes, and then makes the next messages of the keys due, in one transaction. */
  function removing(
    namespace: string,
    remove: Statement,
    parameters: readonly string[],
    keysOf: (rows: readonly PostgresRow[]) => readonly string[],
    within: RunInTransaction = transact,
  ): Promise<{ readonly rows: readonly PostgresRow[]; readonly advanced: number }> {
    return within(async (run) => {
      const rows = await run(remove, parameters);
      const keys = keysOf(rows);
      // After the rows are locked, so that this statement sees every message that was put behind them.
      const [row] = keys.length === 0 ? [] : await run(statements.advance, [namespace, textArray(keys)]);
      return { rows, advanced: Number(row?.[0] ?? 0) };
    }, cancelledAfter(GIVEN_UP_MS));
  }

  return {
    insertText: (namespace, messages, isNotified) => insertText(tables, namespace, messages, isNotified),

    async claim({ namespace, limit, lateLimit, from, leaseMs, token }) {
      const limits = [String(limit), String(microseconds(leaseMs)), token, String(lateLimit), from];
      const [moved, ...rows] = await ask(statements.claim, namespace, ...limits);
      const messages = rows.map((row) => ({
        seq: row[0] as string,
        id: row[1] as string,
        topic: row[2] as string,
        key: row[3] ?? undefined,
        content: row[4] as string,
        createdAt: toMs(row[5] as string),
        attempts: Number(row[6]),
      }));
      return { messages, changed: messages.length + Number(moved?.[0] ?? 0), first: moved?.[1] ?? undefined };
    },

    async settle({ namespace, delivered, keys, failed, parked, released }) {
      const parameters = [
        ...owners(delivered),
        ...owners(failed),
        plainArray(failed.map(({ delayMs }) => microseconds(delayMs))),
        textArray(failed.map(({ error }) => error)),
        ...owners(parked),
        textArray(parked.map(({ error }) => error)),
        ...owners(released),
      ];
      if (keys.length === 0) {
        const [row] = await ask(statements.settle, ...parameters);
        return { deleted: Number(row?.[0] ?? 0), advanced: 0 };
      }
      const { rows, advanced } = await removing(namespace, statements.settle, parameters, () => [
        ...new Set(keys),
      ]);
      return { deleted: Number(rows[0]?.[0] ?? 0), advanced };
    },

    async renew(held, leaseMs) {
      const rows = await ask(statements.renew, ...owners(held), String(microseconds(leaseMs)));
      return rows.map(([seq]) => seq as string);
    },

    async repair(namespace) {
      await ask(statements.repair, namespace);
    },

    async list(namespace, query) {
      const { key, state, after = "0" } = query;
      const [statement, more] =
        key !== undefined
          ? [statements.listKey, [key]]
          : [state === "parked" ? statements.listParked : statements.list, []];
      const rows = await askInTurn(statement, namespace, after, String(rowsToRead(query)), ...more);
      return toPage(rows.map(toMessageRow), query);
    },

    retry: async (namespace, id) => (await ask(statements.retry, namespace, id)).length > 0,
    park: async (namespace, id) => (await ask(statements.park, namespace, id)).length > 0,
    discard: async (namespace, id) =>
      (await removing(namespace, statements.discard, [namespace, id], keysIn)).rows.length > 0,
    forget: async (namespace, scope, limit) =>
      (await removing(namespace, statements.forget, [namespace, scope, String(limit)], keysIn, inTurn)).rows
        .length,

    async figures(namespace) {
      const rows = await askInTurn(statements.figures, namespace);
      const groups = rows.map(
        ([topic, state, messages, oldestAt]): CountedGroup => ({
          topic: topic as string,
          state: state as string,
          messages: Number(messages),
          oldestAt: Number(oldestAt),
        }),
      );
      return toFigures(groups, Number(rows[0]?.[4] ?? 0));
    },

    async migrate() {
      await createRunner(client, false).runReadCommitted({ name: "", text: migrationText(schema) }, []);
    },

    ...(subscriber !== undefined && {
      async watch(namespace: string, wake: () => void) {
        subscription ??= createSubscription(subscriber, async () => CHANNEL);
        return subscription.watch({ id: wakeId(namespace), wake });
      },
    }),

    async close() {
      stopListening();
      await subscription?.close();
    },
  };
}

function owners(endings: readonly ClaimedRow[]): readonly [seqs: string, tokens: string] {
  return [`{${endings.map(({ seq }) => seq).join(",")}}`, textArray(endings.map(({ token }) => token))];
}

function keysIn(rows: readonly PostgresRow[]): readonly string[] {
  return [...new Set(rows.flatMap(([key]) => (typeof key === "string" ? [key] : [])))];
}

function toMessageRow(row: PostgresRow): MessageRow {
  const [seq, id, topic, key, scope, createdAt, attempts, dueAt, isClaimed, parkedAt, lastError, now] = row;
  return {
    seq: seq as string,
    id: id as string,
    topic: topic as string,
    key: key ?? null,
    scope: scope as string,
    createdAt: createdAt as string,
    attempts: attempts as string,
    dueAt: dueAt ?? null,
    isClaimed: isClaimed === "true",
    parkedAt: parkedAt ?? null,
    lastError: lastError ?? null,
    now: now as string,
  };
}
