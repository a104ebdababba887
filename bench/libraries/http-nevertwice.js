/** This library's adapters, as its users use them. */
import { createGuard } from "nevertwice";
import { STORES } from "./nevertwice.js";

export async function create({ framework, store: storeName, target, capacity }) {
  const { store, close } = await STORES[storeName](target, capacity);
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
