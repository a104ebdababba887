/** One of several processes that serve the same keys of one owner behind the HTTP layer, under one quota. */
import { withIdempotency } from "../../../dist/http/fetch.js";
import { createGuard } from "../../../dist/index.js";
import { open } from "./open.js";

/** @typedef {{ url: string, quota: number, keys: readonly string[] }} Options */

/**
 * @typedef {object} Answered
 * @property {"answered"} kind
 * @property {number} runs how often the handler ran here
 * @property {Record<number, number>} counts how many requests were answered with each status
 */

/** @type {Options} */
const { url, quota, keys } = JSON.parse(process.argv[2] ?? "{}");
/** How many requests run at once. */
const WIDTH = 10;
const PATIENCE_MS = 60_000;

const store = await open(url, { migrate: false });
const guard = createGuard({ store, storeTimeoutMs: PATIENCE_MS, purgeEveryMs: 0 });
let runs = 0;
const serve = withIdempotency(guard, { scope: () => "tenant", quota }, () => {
  runs++;
  return new Response("ok", { status: 201 });
});

process.send?.({ kind: "ready" });
await new Promise((resolve) => void process.once("message", resolve));
/** @type {Record<number, number>} */
const counts = {};
const left = [...keys];
await Promise.all(
  Array.from({ length: WIDTH }, async () => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) {
      const headers = { "idempotency-key": key };
      const { status } = await serve(new Request("http://service.test/orders", { method: "POST", headers }));
      counts[status] = (counts[status] ?? 0) + 1;
    }
  }),
);
await guard.close();
await store.close();
process.send?.({ kind: "answered", runs, counts });
process.disconnect();
