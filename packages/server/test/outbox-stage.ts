/** An application that writes messages to its outbox, with relays that fail or never end: for tests of operators' tools. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { createPool } from "mysql2/promise";
import { createOutbox, type Outbox, type OutgoingMessage, permanent } from "nevertwice/outbox";
import { poolOf } from "../../nevertwice/test/stores/postgres/database.ts";

export interface Application {
  /** The URL for the server. */
  readonly url: string;
  readonly outbox: Outbox;
  /** Writes messages in one transaction, and returns their ids. */
  send(...messages: readonly OutgoingMessage[]): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function sqliteApplication(
  file = join(tmpdir(), `outbox-${randomUUID()}.db`),
  namespace = "default",
): Promise<Application> {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000");
  const outbox = createOutbox({ database, namespace });
  await outbox.migrate();
  return {
    url: `sqlite:${file}`,
    outbox,
    async send(...messages) {
      database.exec("BEGIN IMMEDIATE");
      const ids = outbox.sendAll(database, messages);
      database.exec("COMMIT");
      return ids;
    },
    async close() {
      await outbox.close();
      database.close();
    },
  };
}

export async function postgresApplication(url: string, namespace = "default"): Promise<Application> {
  const pool = poolOf(url);
  const outbox = createOutbox({ client: pool, namespace });
  await outbox.migrate();
  return {
    url,
    outbox,
    async send(...messages) {
      const client = await pool.connect();
      await client.query("BEGIN");
      const ids = await outbox.sendAll(client, messages);
      await client.query("COMMIT");
      client.release();
      return ids;
    },
    async close() {
      await outbox.close();
      await pool.end();
    },
  };
}

export async function mysqlApplication(url: string, namespace = "default"): Promise<Application> {
  const pool = createPool({ uri: url, connectionLimit: 4 });
  const outbox = createOutbox({ client: pool, namespace });
  await outbox.migrate();
  return {
    url,
    outbox,
    async send(...messages) {
      const connection = await pool.getConnection();
      await connection.beginTransaction();
      const ids = await outbox.sendAll(connection, messages);
      await connection.commit();
      connection.release();
      return ids;
    },
    async close() {
      await outbox.close();
      await pool.end();
    },
  };
}

/**
 * Runs a relay until `isReached`. Messages with the topic or the header `fate` of `refuse` are parked, those of `later`
 * fail for now, and the delivery of all others never ends.
 */
export async function relayUntil(
  { outbox }: Pick<Application, "outbox">,
  isReached: () => Promise<boolean>,
): Promise<{ stop(): Promise<void> }> {
  const relay = outbox.relay({
    pollMs: 10,
    drainMs: 0,
    retry: { baseMs: 600_000, capMs: 600_000 },
    async deliver({ topic, headers }, { signal }) {
      const fate = headers.fate ?? topic;
      if (fate === "refuse") throw permanent(new Error("the receiver answered 422: unknown customer"));
      if (fate === "later") throw new Error("connect ECONNREFUSED 10.0.0.7:443");
      await once(signal, "abort");
      throw new Error("no answer within 30 s");
    },
  });
  relay.start();
  const deadline = Date.now() + 20_000;
  while (!(await isReached())) {
    if (Date.now() > deadline) throw new Error("the relay did not reach the wanted state");
    await setTimeout(20);
  }
  return { stop: () => relay.stop() };
}
