/** Tests that keys, owners and operations made to break out of a query, a pattern or a path: to every store they are only text. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import pg from "pg";
import { describe, expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { dynamodbStore } from "../../src/stores/dynamodb.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { sharedUrl } from "../services/services.ts";
import { clientOf, newTable } from "./dynamodb/tables.ts";
import { openEtcd } from "./etcd/stores.ts";
import { newStore } from "./mysql/pools.ts";

const HOSTILE = [
  "'; DROP TABLE nevertwice_records; --",
  '"; DELETE FROM nevertwice_records; --',
  "' OR '1'='1",
  "\\'; SELECT 1; --",
  "$1",
  ":key",
  "?",
  "%",
  "_",
  "*",
  "[a-z]*",
  "{tag}",
  "}{",
  "nevertwice:*",
  "KEYS[1]",
  "a\r\nSET x y\r\n",
  "a\u0000b",
  "\t\n",
  "../../etc/passwd",
  "__proto__",
  "constructor",
  "victim ",
  "VICTIM",
  "vi\u200bctim",
  "e\u0301",
  "é",
  "\u{1f511}",
  "null",
];

const OPEN: Readonly<Record<string, (context: TestContext) => Promise<Store>>> = {
  memory: async () => memoryStore(),
  async SQLite({ onTestFinished }) {
    const folder = await mkdtemp(join(tmpdir(), "nevertwice-hostile-"));
    const database = new DatabaseSync(join(folder, "records.db"));
    onTestFinished(async () => {
      database.close();
      await rm(folder, { recursive: true, force: true });
    });
    return sqliteStore({ database });
  },
  async Redis(context) {
    const client = new Redis(sharedUrl(context, "redis"));
    context.onTestFinished(() => client.disconnect());
    return redisStore({ client, prefix: `hostile:${randomUUID()}:` });
  },
  async Postgres(context) {
    const pool = new pg.Pool({ connectionString: sharedUrl(context, "postgres") });
    const schema = `hostile_${randomUUID().replaceAll("-", "")}`;
    await pool.query(`CREATE SCHEMA ${schema}`);
    context.onTestFinished(async () => {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`);
      await pool.end();
    });
    const store = postgresStore({ client: pool, schema });
    await store.migrate();
    return store;
  },
  MySQL: async (context) => (await newStore(context)).store,
  async DynamoDB(context) {
    const client = clientOf(sharedUrl(context, "dynamodb"));
    context.onTestFinished(() => client.destroy());
    return dynamodbStore({ client, table: await newTable(client) });
  },
  etcd: async (context) => openEtcd(context),
};

describe.concurrent("hostile texts", () => {
  for (const [name, open] of Object.entries(OPEN)) {
    test(`SC-03 get separate records, are returned unchanged, and affect no other record: on ${name}`, async (context) => {
      const store = await open(context);
      const namespace = randomUUID();
      // A busy machine may take longer than the default for one call.
      const guard = createGuard({ store, namespace, purgeEveryMs: 0, storeTimeoutMs: 30_000 });
      const victim = { operation: "pay", scope: "victim", key: "victim" };
      await guard.run(victim, () => "of the victim");
      const subjects = HOSTILE.flatMap((text) => [
        { operation: "pay", scope: "victim", key: text },
        { operation: "pay", scope: text, key: "victim" },
        // Such an operation is reserved for the library, and refused.
        ...(text.startsWith("nevertwice:") ? [] : [{ operation: text, scope: "victim", key: "victim" }]),
      ]);
      await Promise.all(
        subjects.map(async (subject) => {
          const text = JSON.stringify(subject);
          expect(await guard.run(subject, () => text)).toBe(text);
        }),
      );
      await Promise.all(
        subjects.map(async (subject) => {
          expect(await guard.run(subject, () => "run again")).toBe(JSON.stringify(subject));
          expect(await guard.read(subject)).toMatchObject({ ...subject, state: "completed" });
        }),
      );
      // An owner whose name is a pattern does not match all owners.
      for (const scope of ["%", "*", "_", "' OR '1'='1"])
        expect(await guard.forget({ scope })).toEqual({ forgotten: 1, inFlight: 0 });
      expect(await guard.read(victim)).toMatchObject({ ...victim, state: "completed" });
      expect(await guard.run(victim, () => "run again")).toBe("of the victim");
      await guard.close();
    });
  }
});
