/** Tests that nothing of the steps stays in the database once they have no meaning: they may contain personal data. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { sharedUrl } from "../services/services.ts";
import { newDatabase, poolOn } from "./mysql/pools.ts";
import { claimOf, completionOf, createDatabase, poolOf } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";
import { keyOf } from "./redis/scene.ts";

interface Ground {
  readonly store: Store;
  /** Replaces the token of the record's steps, as if another release had claimed the key in the meantime. */
  walkOver(id: string): Promise<unknown>;
  stepsOf(id: string): Promise<unknown>;
}

async function onRedis(context: TestContext): Promise<Ground> {
  const client = ioredis(sharedUrl(context, "redis"));
  return {
    store: redisStore({ client }),
    walkOver: (id) => client.hset(keyOf(id), "steps", `another\n["charge",1,"secret"]\n`),
    stepsOf: (id) => client.hget(keyOf(id), "steps"),
  };
}

const FOREIGN = `'another' || chr(10) || '["charge",1,"secret"]' || chr(10)`;

async function onPostgres(context: TestContext): Promise<Ground> {
  const client = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  onTestFinished(() => client.end());
  const store = postgresStore({ client });
  await store.migrate();
  return {
    store,
    walkOver: (id) => client.query(`UPDATE nevertwice_records SET steps = ${FOREIGN} WHERE id = $1`, [id]),
    stepsOf: async (id) =>
      (await client.query("SELECT steps FROM nevertwice_records WHERE id = $1", [id])).rows[0].steps,
  };
}

async function onMysql(context: TestContext): Promise<Ground> {
  const client = poolOn(context, await newDatabase(context));
  const store = mysqlStore({ client });
  await store.migrate();
  return {
    store,
    walkOver: (id) =>
      client.query("UPDATE nevertwice_records SET steps = ? WHERE id = ?", [
        'another\n["charge",1,"secret"]\n',
        id,
      ]),
    async stepsOf(id) {
      const [rows] = await client.query("SELECT steps FROM nevertwice_records WHERE id = ?", [id]);
      return (rows as { steps: unknown }[])[0]?.steps;
    },
  };
}

test.for([
  ["Redis", onRedis],
  ["Postgres", onPostgres],
  ["MySQL", onMysql],
] as const)("on %s a completed or walked-over record has no text of steps", async ([, open], context) => {
  const { store, walkOver, stepsOf } = await open(context);
  const claim = claimOf();
  const { id, token } = claim;
  await store.claim(claim);
  await store.keepStep?.({ id, token, name: "charge", outcome: "secret" });
  expect(String(await stepsOf(id))).toContain("secret");
  await store.complete(completionOf(claim));
  expect(await stepsOf(id)).toBeNull();

  const lapsed = claimOf(randomUUID());
  await store.claim(lapsed);
  await walkOver(lapsed.id);
  await store.abandon({ id: lapsed.id, token: lapsed.token, as: "unknown" });
  expect(await store.claim({ ...lapsed, token: "next" })).toMatchObject({ status: "new", tookOver: true });
  expect(await stepsOf(lapsed.id)).toBeNull();
});
