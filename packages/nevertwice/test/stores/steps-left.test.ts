/** Tests the text of steps in the database: nothing of it stays once it has no meaning, and a damaged one is not trusted. */
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
  /** Replaces the text, as another release or a person could. */
  replaceSteps(id: string, steps: string): Promise<unknown>;
  stepsOf(id: string): Promise<unknown>;
}

/** The end of a record's text, without the token: steps always belong to the token of their record there. */
async function onRedis(context: TestContext): Promise<Ground> {
  const client = ioredis(sharedUrl(context, "redis"));
  const linesOf = async (id: string) => (await client.get(keyOf(id)))?.split("\n") ?? [];
  return {
    store: redisStore({ client }),
    async replaceSteps(id, steps) {
      const [, ...lines] = steps.split("\n");
      await client.set(keyOf(id), [...(await linesOf(id)).slice(0, 4), ...lines].join("\n"), "KEEPTTL");
    },
    async stepsOf(id) {
      const [words, , , , ...lines] = await linesOf(id);
      return words?.startsWith("3c") ? null : lines.join("\n");
    },
  };
}

async function onPostgres(context: TestContext): Promise<Ground> {
  const client = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  onTestFinished(() => client.end());
  const store = postgresStore({ client });
  await store.migrate();
  return {
    store,
    replaceSteps: (id, steps) =>
      client.query("UPDATE nevertwice_records SET steps = $2 WHERE id = decode($1, 'hex')", [id, steps]),
    stepsOf: async (id) =>
      (await client.query("SELECT steps FROM nevertwice_records WHERE id = decode($1, 'hex')", [id])).rows[0]
        .steps,
  };
}

async function onMysql(context: TestContext): Promise<Ground> {
  const client = poolOn(context, await newDatabase(context));
  const store = mysqlStore({ client });
  await store.migrate();
  return {
    store,
    replaceSteps: (id, steps) =>
      client.query("UPDATE nevertwice_records SET steps = ? WHERE id = ?", [steps, id]),
    async stepsOf(id) {
      const [rows] = await client.query("SELECT steps FROM nevertwice_records WHERE id = ?", [id]);
      return (rows as { steps: unknown }[])[0]?.steps;
    },
  };
}

const GROUNDS = [
  ["Redis", onRedis],
  ["Postgres", onPostgres],
  ["MySQL", onMysql],
] as const;

test.for(GROUNDS)(
  "on %s a damaged text of steps is store-unsafe for its own key",
  async ([, open], context) => {
    const { store, replaceSteps } = await open(context);
    for (const line of ["garbage", "[1,2,3]", '["charge",1]', "{}"]) {
      const claim = claimOf();
      await store.claim(claim);
      await replaceSteps(claim.id, `${claim.token}\n${line}\n`);
      await expect(store.claim(claim), line).rejects.toMatchObject({ code: "store-unsafe" });
      await expect(store.read(claim.id), line).rejects.toMatchObject({ code: "store-unsafe" });
    }
    expect(await store.claim(claimOf())).toMatchObject({ status: "new" });
  },
);

test.for(GROUNDS)("on %s a completed record has no text of steps", async ([, open], context) => {
  const { store, stepsOf } = await open(context);
  const claim = claimOf();
  const { id, token } = claim;
  await store.claim(claim);
  await store.keepStep?.({ id, token, name: "charge", outcome: "secret" });
  expect(String(await stepsOf(id))).toContain("secret");
  await store.complete(completionOf(claim));
  expect(await stepsOf(id)).toBeNull();
});

test.for(GROUNDS.filter(([name]) => name !== "Redis"))(
  "on %s a walked-over record has no text of steps",
  async ([, open], context) => {
    const { store, replaceSteps, stepsOf } = await open(context);
    const lapsed = claimOf(randomUUID());
    await store.claim(lapsed);
    await replaceSteps(lapsed.id, 'another\n["charge",1,"secret"]\n');
    await store.abandon({ id: lapsed.id, token: lapsed.token, as: "unknown" });
    expect(await store.claim({ ...lapsed, token: "next" })).toMatchObject({ status: "new", tookOver: true });
    expect(await stepsOf(lapsed.id)).toBeNull();
  },
);
