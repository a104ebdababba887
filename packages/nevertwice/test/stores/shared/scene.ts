/** Two stores on one real database, each with its own connection, and guards over them. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import pg from "pg";
import type { TestContext } from "vitest";
import type { GuardOptions } from "../../../src/core/engine.ts";
import { toIdentity } from "../../../src/core/identity.ts";
import type { GuardEvent } from "../../../src/core/observer.ts";
import type { Store } from "../../../src/core/store.ts";
import { createGuard, type Guard } from "../../../src/functions/guard.ts";
import { postgresStore } from "../../../src/stores/postgres.ts";
import { redisStore } from "../../../src/stores/redis.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import { type CaseWork, newParts, workOn } from "../../../src/testing/cases/work.ts";
import { scratchFolder } from "../../scratch-folder.ts";
import { sharedUrl } from "../../services/services.ts";

export interface Scene {
  readonly store: Store;
  /** Another store on the same records, over its own connection, as another process has it. */
  readonly elsewhere: Store;
  /** A new key, and the store methods for it without a guard: over one store and over the other. */
  work(): { readonly here: CaseWork; readonly there: CaseWork };
  /** A guard and the events that it emitted. The test closes it; all guards of a scene share their keys. */
  guard(options?: Partial<GuardOptions>): Guard & { readonly events: readonly GuardEvent[] };
  /** The id of a record of the scene's guards. */
  idOf(operation: string, key: string): string;
  sleep(ms: number): Promise<void>;
}

/** Two stores on the same empty database, each over a connection of its own. */
export type Pair = (context: TestContext) => Promise<readonly [Store, Store]>;

export const sqlitePair: Pair = async ({ onTestFinished }) => {
  const folder = await scratchFolder({ onTestFinished });
  const open = () => {
    const database = new DatabaseSync(join(folder, "records.db"), { timeout: 5_000 });
    onTestFinished(() => database.close());
    return sqliteStore({ database });
  };
  return [open(), open()];
};

export const redisPair: Pair = async (context) => {
  const url = sharedUrl(context, "redis");
  const prefix = `shared:${randomUUID()}:`;
  const connect = () => {
    const client = new Redis(url);
    context.onTestFinished(() => client.disconnect());
    return client;
  };
  const open = () => redisStore({ client: connect(), subscriber: connect(), prefix });
  return [open(), open()];
};

export const postgresPair: Pair = async (context) => {
  const connectionString = sharedUrl(context, "postgres");
  const schema = `shared_${randomUUID().replaceAll("-", "")}`;
  const connect = () => {
    const pool = new pg.Pool({ connectionString });
    context.onTestFinished(() => pool.end());
    return pool;
  };
  const [one, other] = [connect(), connect()];
  await one.query(`CREATE SCHEMA ${schema}`);
  context.onTestFinished(async () => void (await one.query(`DROP SCHEMA ${schema} CASCADE`)));
  const store = postgresStore({ client: one, schema });
  await store.migrate();
  return [store, postgresStore({ client: other, schema })];
};

export const PAIRS = {
  SQLite: sqlitePair,
  Redis: redisPair,
  Postgres: postgresPair,
} satisfies Readonly<Record<string, Pair>>;

export async function openScene(context: TestContext, pair: Pair): Promise<Scene> {
  const [store, elsewhere] = await pair(context);
  const namespace = randomUUID();
  return {
    store,
    elsewhere,
    work() {
      const parts = newParts({ namespace });
      return { here: workOn(store, parts), there: workOn(elsewhere, parts) };
    },
    guard(options) {
      const events: GuardEvent[] = [];
      const observer = (event: GuardEvent) => void events.push(event);
      const guard = createGuard({ store, namespace, observer, purgeEveryMs: 0, ...options });
      context.onTestFinished(async () => void (await guard.close()));
      return { ...guard, events };
    },
    idOf: (operation, key) => toIdentity({ namespace, scope: "", operation, key }).id,
    sleep: (ms) => sleep(ms),
  };
}
