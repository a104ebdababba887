/** Tests the quota of the HTTP layer, shared by guards that have connections of their own to one server. */
import { randomUUID } from "node:crypto";
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { countingAlone, flood, layerOn } from "../http/quota-scene.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { createDatabase, poolOf } from "./postgres/database.ts";
import { ioredis } from "./redis/clients.ts";

interface Ground {
  readonly proxy: FaultProxy;
  /** Another store on the same records. */
  open(): Store;
}

async function onRedis(context: TestContext): Promise<Ground> {
  const url = sharedUrl(context, "redis");
  const proxy = await startFor(context, () => startProxy(url));
  const prefix = `http-quota:${randomUUID()}:`;
  return { proxy, open: () => redisStore({ client: ioredis(proxy.url), prefix }) };
}

async function onPostgres(context: TestContext): Promise<Ground> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const proxy = await startFor(context, () => startProxy(url));
  const connect = () => {
    const client = poolOf(proxy.url, { max: 4 });
    context.onTestFinished(() => client.end());
    return postgresStore({ client });
  };
  await connect().migrate();
  return { proxy, open: connect };
}

const GROUNDS = [
  ["redis", onRedis],
  ["postgres", onPostgres],
] as const;

const QUOTA = 320;
const BLOCK = 5;

test.for(GROUNDS)(
  "on %s five guards together admit at most the quota, and at least the quota minus one block for each guard",
  async ([, ground], context) => {
    const { open } = await ground(context);
    const layers = Array.from({ length: 5 }, () => layerOn(open(), { quota: QUOTA }));
    const { through, counts } = await flood(layers, 800);
    expect(through).toBeLessThanOrEqual(QUOTA);
    expect(through).toBeGreaterThanOrEqual(QUOTA - layers.length * BLOCK);
    expect(counts).toEqual({ 201: through, 429: 800 - through });
    const replays = await flood(layers, QUOTA, (i) => ({ key: `key-${i}` }));
    // Every guard replays the keys that any of them admitted, and runs nothing for them.
    expect(replays.through).toBe(through);
    expect(replays.counts[201]).toBeGreaterThan(0);
  },
);

test.for(GROUNDS)(
  "on %s two guards share the limits for all owners together",
  async ([, ground], context) => {
    const { open } = await ground(context);
    const limits = { keys: 10, bytes: 10_000, totalKeys: 50, totalBytes: 1_000_000 };
    const layers = Array.from({ length: 2 }, () => layerOn(open(), { quota: limits }));
    const invented = (i: number) => ({ key: "key", tenant: `stranger-${i}` });
    expect((await flood(layers, 200, invented)).through).toBe(50);
  },
);

test.for(GROUNDS)(
  "on %s a twin that does not share its count admits more keys, so these tests would catch it",
  async ([, ground], context) => {
    const { open } = await ground(context);
    const twins = Array.from({ length: 2 }, () =>
      layerOn(countingAlone(open(), memoryStore()), { quota: 100 }),
    );
    expect((await flood(twins, 300)).through).toBe(200);
  },
);

test.for(GROUNDS)(
  "on %s a first request takes two round trips and a replay one while the block has keys left",
  async ([protocol, ground], context) => {
    const { open, proxy } = await ground(context);
    const layer = layerOn(open(), { quota: { keys: 6_400, bytes: 64_000_000, totalKeys: 64_000 } });
    await layer.status("first");
    const sent = proxy.countRequests(protocol);
    for (let i = 0; i < 20; i++) await layer.status(`key-${i}`);
    expect(sent.count).toBe(40);
    for (let i = 0; i < 20; i++) await layer.status(`key-${i}`);
    expect(sent.count).toBe(60);
  },
);
