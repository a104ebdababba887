/** An outbox on each database, and what a test does with it, whatever the database is. */

import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { onTestFinished, type TestContext } from "vitest";
import { createGuard, type Guard, type GuardOptions } from "../../../src/index.ts";
import {
  createOutbox,
  type Outbox,
  type OutboxMessage,
  type OutboxOptions,
  type OutgoingMessage,
  type Relay,
  type RelayEvent,
  type RelayOptions,
} from "../../../src/outbox/index.ts";
import { mysqlStore } from "../../../src/stores/mysql.ts";
import { postgresStore } from "../../../src/stores/postgres.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import type { DatabaseHandle } from "../../../src/transaction/index.ts";
import { sharedUrl } from "../../services/services.ts";
import { newDatabase, poolOn } from "../mysql/pools.ts";
import { createDatabase, poolOf } from "../postgres/database.ts";

export type DatabaseName = "postgres" | "mysql" | "sqlite";

/** A transaction that a test ends itself. */
export interface OpenTransaction {
  run(text: string): Promise<unknown>;
  send(message: OutgoingMessage): Promise<string>;
  commit(): Promise<void>;
  rollBack(): Promise<void>;
}

export interface OutboxScene {
  readonly outbox: Outbox;
  /** What `guard.transaction` takes. */
  readonly handle: DatabaseHandle;
  guard(options?: Partial<GuardOptions>): Promise<Guard>;
  /** Another outbox on the same database. */
  another(options?: Partial<OutboxOptions>): Outbox;
  begin(): Promise<OpenTransaction>;
  /** Deletes the oldest message of a key in a transaction that the test ends, without the library. */
  lockAndDelete(key: string): Promise<Pick<OpenTransaction, "commit">>;
  /** Sends in a transaction of its own. */
  send(message: OutgoingMessage): Promise<string>;
  /** The rows of this scene, read without the library. */
  rows(): Promise<readonly Record<string, unknown>[]>;
  /** Changes the rows of this scene, without the library: `due_at = 1`. */
  change(set: string): Promise<void>;
}

const message = { topic: "paid", body: { amount: 5 } };

/** A message of a key, whose body is its number. */
export const numbered = (key: string | undefined, number: number): OutgoingMessage => ({
  ...message,
  key,
  body: number,
});

export async function createScene(
  name: DatabaseName,
  context: TestContext,
  options: Partial<OutboxOptions> = {},
): Promise<OutboxScene> {
  const namespace = randomUUID();
  const scene = await { postgres: onPostgres, mysql: onMysql, sqlite: onSqlite }[name](context, {
    namespace,
    ...options,
  });
  await scene.outbox.migrate();
  return {
    ...scene,
    rows: () => scene.query(`SELECT * FROM nevertwice_outbox WHERE namespace = '${namespace}'`),
    change: async (set) =>
      void (await scene.query(`UPDATE nevertwice_outbox SET ${set} WHERE namespace = '${namespace}'`)),
    async lockAndDelete(key) {
      const tx = await scene.begin();
      const quoted = name === "mysql" ? "`key`" : "key";
      const oldest = (await scene.query(
        `SELECT min(seq) AS seq FROM nevertwice_outbox WHERE namespace = '${namespace}' AND ${quoted} = '${key}'`,
      )) as { seq: number }[];
      await tx.run(`DELETE FROM nevertwice_outbox WHERE seq = ${oldest[0]?.seq}`);
      return tx;
    },
    async send(sent) {
      const tx = await scene.begin();
      const id = await tx.send(sent);
      await tx.commit();
      return id;
    },
  };
}

type BareScene = Omit<OutboxScene, "send" | "rows" | "change" | "lockAndDelete"> & {
  query(text: string): Promise<readonly Record<string, unknown>[]>;
};

/** One database for all tests of a file: each test has a namespace of its own. */
let postgresUrl: Promise<string> | undefined;
let mysqlUrl: Promise<string> | undefined;

function closed<Closable extends { close(): Promise<unknown> }>(made: Closable): Closable {
  onTestFinished(async () => void (await made.close()));
  return made;
}

async function onPostgres(context: TestContext, options: Partial<OutboxOptions>): Promise<BareScene> {
  postgresUrl ??= createDatabase(sharedUrl(context, "postgres"));
  const pool = poolOf(await postgresUrl);
  onTestFinished(() => pool.end());
  const another = (more: Partial<OutboxOptions> = {}) =>
    closed(createOutbox({ client: pool, ...options, ...more }));
  const outbox = another();
  return {
    outbox,
    another,
    handle: pool,
    async guard(more) {
      const store = postgresStore({ client: pool });
      await store.migrate();
      return closed(createGuard({ store, outbox, purgeEveryMs: 0, ...more }));
    },
    async begin() {
      const client = await pool.connect();
      await client.query("BEGIN");
      const end = async (text: string) => {
        await client.query(text);
        client.release();
      };
      return {
        run: (text) => client.query(text),
        send: (sent) => outbox.send(client, sent),
        commit: () => end("COMMIT"),
        rollBack: () => end("ROLLBACK"),
      };
    },
    query: async (text) => (await pool.query(text)).rows,
  };
}

async function onMysql(context: TestContext, options: Partial<OutboxOptions>): Promise<BareScene> {
  mysqlUrl ??= newDatabase(context);
  const pool = poolOn(context, await mysqlUrl);
  const another = (more: Partial<OutboxOptions> = {}) =>
    closed(createOutbox({ client: pool, ...options, ...more }));
  const outbox = another();
  return {
    outbox,
    another,
    handle: pool,
    async guard(more) {
      const store = mysqlStore({ client: pool });
      await store.migrate();
      return closed(createGuard({ store, outbox, purgeEveryMs: 0, ...more }));
    },
    async begin() {
      const connection = await pool.getConnection();
      await connection.query("START TRANSACTION");
      const end = async (text: string) => {
        await connection.query(text);
        connection.release();
      };
      return {
        run: (text) => connection.query(text),
        send: (sent) => outbox.send(connection, sent),
        commit: () => end("COMMIT"),
        rollBack: () => end("ROLLBACK"),
      };
    },
    query: async (text) => {
      const [rows] = await pool.query(text);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    },
  };
}

async function onSqlite(_: TestContext, options: Partial<OutboxOptions>): Promise<BareScene> {
  const database = new DatabaseSync(join(tmpdir(), `outbox-${randomUUID()}.db`));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  onTestFinished(() => database.close());
  const another = (more: Partial<OutboxOptions> = {}) =>
    closed(createOutbox({ database, ...options, ...more }));
  const outbox = another();
  return {
    outbox,
    another,
    handle: database,
    guard: async (more) =>
      closed(createGuard({ store: sqliteStore({ database }), outbox, purgeEveryMs: 0, ...more })),
    async begin() {
      database.exec("BEGIN IMMEDIATE");
      return {
        run: async (text) => database.exec(text),
        send: async (sent) => outbox.send(database, sent),
        commit: async () => void database.exec("COMMIT"),
        rollBack: async () => void database.exec("ROLLBACK"),
      };
    },
    query: async (text) => database.prepare(text).all() as Record<string, unknown>[],
  };
}

/** A relay that notes what it delivers, stopped when the test ends. */
export function startRelay(
  outbox: Outbox,
  deliver: RelayOptions["deliver"] = () => {},
  options: Partial<RelayOptions> = {},
): { readonly relay: Relay; readonly delivered: OutboxMessage[]; readonly events: RelayEvent[] } {
  const delivered: OutboxMessage[] = [];
  const events: RelayEvent[] = [];
  const relay = outbox.relay({
    pollMs: 10,
    drainMs: 1_000,
    ...options,
    async deliver(sent, context) {
      await deliver(sent, context);
      delivered.push(sent);
    },
    onEvent: (event) => events.push(event),
  });
  relay.start();
  onTestFinished(() => relay.stop());
  return { relay, delivered, events };
}
