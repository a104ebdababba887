/** steadykey's middleware for Express and its plugin for Fastify. */
import { IdempotencyManager, InMemoryIdempotencyStore, RedisIdempotencyStore } from "steadykey";
import { createIdempotencyMiddleware, fastifyIdempotency } from "steadykey/middleware";

const LAYERS = { express: createIdempotencyMiddleware, fastify: fastifyIdempotency };

export async function create({ framework, store: storeName, place }) {
  const { store, close } = await STORES[storeName](place);
  const manager = new IdempotencyManager(store, { defaultTtlSeconds: 86_400 });
  return {
    layer: LAYERS[framework](manager),
    async close() {
      await close?.();
    },
  };
}

const STORES = {
  async memory() {
    return { store: new InMemoryIdempotencyStore() };
  },

  async redis({ url }) {
    const { createClient } = await import("redis");
    const client = await createClient({ url }).connect();
    return { store: new RedisIdempotencyStore(client), close: () => client.close() };
  },
};
