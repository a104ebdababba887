/** express-idempotency, whose handlers have to ask whether the request is answered already. */
import { getSharedIdempotencyService, idempotency } from "express-idempotency";

export async function create() {
  return {
    layer: idempotency(),
    isAnswered: (req) => getSharedIdempotencyService().isHit(req),
    async close() {},
  };
}
