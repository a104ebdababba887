/** h3: the route of an app. In Nitro and Nuxt, `fromWebHandler(…)` is the default export of `server/routes/payments.post.js`. */
import { fromWebHandler, H3 } from "h3";
import { createPayments } from "./payments.js";

/** @param {Parameters<typeof createPayments>} parts the guard, and what charges */
export function createApp(...parts) {
  return new H3().post("/payments", fromWebHandler(createPayments(...parts)));
}
