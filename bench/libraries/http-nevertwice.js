/** This library's adapters, as its users use them. */
import { openGuard } from "./nevertwice.js";

export async function create({ framework, store, target, capacity }) {
  const { guard, close } = await openGuard(store, target, capacity);
  const { idempotency } = await import(`nevertwice/http/${framework}`);
  return { layer: idempotency(guard, { scope: SCOPES[framework] }), close };
}

const SCOPES = {
  express: (req) => req.headers.authorization,
  fastify: (request) => request.headers.authorization,
  hono: (c) => c.req.header("authorization"),
};
