/** steadykey's middleware for Express and its plugin for Fastify. */
import { IdempotencyManager } from "steadykey";
import { createIdempotencyMiddleware, fastifyIdempotency } from "steadykey/middleware";
import { STORES } from "./steadykey.js";

const LAYERS = { express: createIdempotencyMiddleware, fastify: fastifyIdempotency };

export async function create({ framework, store: storeName, target }) {
  const { store, close } = await STORES[storeName](target);
  const manager = new IdempotencyManager(store, { defaultTtlSeconds: 86_400 });
  return {
    layer: LAYERS[framework](manager),
    async close() {
      await close?.();
    },
  };
}
