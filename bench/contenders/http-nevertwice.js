/** This library's adapters, as its users use them. */
import { createGuard } from "nevertwice";

export async function create({ framework, store: storeName, place, capacity }) {
  const { store, close } = await STORES[storeName](place, capacity);
  const { idempotency } = await import(`nevertwice/http/${framework}`);
  const guard = createGuard({ store });
  return {
    layer: idempotency(guard, { scope: SCOPES[framework] }),
    async close() {
      await guard.close();
      await store.close();
      await close?.();
    },
  };
}

const SCOPES = {
  express: (req) => req.headers.authorization,
  fastify: (request) => request.headers.authorization,
  hono: (c) => c.req.header("authorization"),
};

const STORES = {
  async memory(_place, capacity) {
    const { memoryStore } = await import("nevertwice/stores/memory");
    // The default limit would refuse the last keys of a long run; the limit itself costs nothing.
    return { store: memoryStore({ maxRecords: capacity }) };
  },

  async redis({ url }) {
    const [{ redisStore }, { Redis }] = await Promise.all([
      import("nevertwice/stores/redis"),
      import("ioredis"),
    ]);
    const client = new Redis(url);
    return { store: redisStore({ client }), close: () => client.quit() };
  },
};
