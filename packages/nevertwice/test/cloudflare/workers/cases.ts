/** Runs the published cases inside the runtime, one for each request: on the stores, and on the stores broken on purpose. */
import { d1Store } from "nevertwice/stores/d1";
import { durableObjectStore } from "nevertwice/stores/durable-objects";
import { manualClock, type StoreUnderTest, storeCases } from "nevertwice/testing/stores";
import { createBatchRunner } from "../../../src/stores/d1/database.ts";
import { createD1Store } from "../../../src/stores/d1/store.ts";
import { DATABASE_CLOCK } from "../../../src/stores/d1-sql.ts";
import { BROKEN_STORES } from "../../testing/broken-stores.ts";
import { ruleStore } from "../../testing/rule-store.ts";
import { advanceAll, type Env, purgeAll } from "./objects.ts";

export { TestObject } from "./objects.ts";

/** Each case has its own objects, because each moves their clocks. */
function objects(env: Env): StoreUnderTest {
  const group = { namespace: env.NEVERTWICE, name: crypto.randomUUID(), shards: 3 };
  const { name, shards } = group;
  const store = durableObjectStore(env.NEVERTWICE, { name, shards });
  return {
    // The objects purge by their alarms. Here the same purge is asked for, so that its cases apply.
    store: { ...store, collectsItself: false, purge: (limit) => purgeAll(group, limit) },
    advance: (ms) => advanceAll(group, ms),
  };
}

/** A clock that is a row of the database, for the cases that move it. They share it, and run one after another. */
const MOVED_CLOCK = `(${DATABASE_CLOCK} + (SELECT ahead_ms FROM moved_clock))`;

async function d1(env: Env): Promise<StoreUnderTest> {
  const { DB } = env;
  const move = (sql: string) => DB.batch([DB.prepare(sql)]);
  await move("CREATE TABLE IF NOT EXISTS moved_clock (ahead_ms INTEGER)");
  await move("DELETE FROM moved_clock");
  await move("INSERT INTO moved_clock VALUES (0)");
  const store = createD1Store(
    createBatchRunner(() => DB),
    MOVED_CLOCK,
  );
  await store.migrate();
  const advance = async (ms: number) =>
    void (await move(`UPDATE moved_clock SET ahead_ms = ahead_ms + ${Math.round(ms)}`));
  return { store, advance };
}

async function d1InRealTime(env: Env): Promise<StoreUnderTest> {
  const store = d1Store(env.DB);
  await store.migrate();
  return { store };
}

type Create = (env: Env) => StoreUnderTest | Promise<StoreUnderTest>;

const STORES: Readonly<Record<string, Create>> = {
  d1,
  "d1, in real time": d1InRealTime,
  objects,
  "objects, in real time": (env) => {
    const { store } = objects(env);
    return { store };
  },
};

interface Verdict {
  readonly failed?: string;
  readonly skipped?: string;
}

async function runCase(create: Parameters<typeof storeCases>[0], title: string): Promise<Verdict> {
  const found = storeCases(create).find(({ guarantee, name }) => `${guarantee}: ${name}` === title);
  if (found === undefined) return { failed: `there is no case ${title}` };
  return found.run().then(
    (skip) => skip ?? {},
    (error) => ({ failed: String(error?.message ?? error) }),
  );
}

/** The names of the cases that a broken store fails. */
async function catching(guarantee: string, fault: string): Promise<readonly string[]> {
  const broken = Object.entries(BROKEN_STORES)
    .find(([each]) => each === guarantee)?.[1]
    .find((each) => each.fault === fault);
  const cases = storeCases(() => {
    const clock = manualClock();
    const store = ruleStore(clock, broken?.rules?.());
    return { store: broken?.wrap?.(store) ?? store, advance: clock.advance };
  });
  const failed = await Promise.all(
    cases.map(({ name, run }) =>
      run().then(
        () => [],
        () => [name],
      ),
    ),
  );
  return failed.flat().sort();
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const parameter = (name: string) => searchParams.get(name) ?? "";
    if (pathname === "/broken")
      return Response.json(await catching(parameter("guarantee"), parameter("fault")));
    const create = STORES[parameter("store")];
    if (create === undefined) return new Response("no such store", { status: 404 });
    return Response.json(await runCase(() => create(env), parameter("case")));
  },
};
