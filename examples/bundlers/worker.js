/** A Worker to bundle: POST makes an order, once for each key. A real one has a store that other Workers share. */
import { createGuard } from "nevertwice";
import { withIdempotency } from "nevertwice/http/fetch";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
let orders = 0;

export default {
  fetch: withIdempotency(guard, { scope: "anyone", required: true }, () => new Response(`order ${++orders}`)),
};
