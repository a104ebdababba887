/** express-idempotency, which leaves it to each handler to find out that there is nothing left to do. */
import { getSharedIdempotencyService, idempotency } from "express-idempotency";

export async function create() {
  return {
    layer: idempotency(),
    isAnswered: (req) => getSharedIdempotencyService().isHit(req),
    async close() {},
  };
}
