/** One of several processes in which many callers wait for the same key, which another process owns. */
import { createGuard } from "../../../dist/index.js";
import { open } from "./open.js";

/** @typedef {{ url: string, waiters: number, operation: string, key: string }} Options */

/**
 * @typedef {object} Answered
 * @property {"answered"} kind
 * @property {number} lastAt when the last caller got its answer, in microseconds of the monotonic clock
 * @property {Record<string, number>} statuses how often callers got each status
 * @property {readonly string[]} values each distinct value, once
 * @property {number} runs how often the work ran here
 */

/** @type {Options} */
const { url, waiters, operation, key } = JSON.parse(process.argv[2] ?? "{}");
/** No caller may time out, even on a slow machine. */
const PATIENCE_MS = 600_000;

const store = await open(url, { migrate: false });
let refused = 0;
const guard = createGuard({
  store: {
    ...store,
    async claim(request) {
      const answer = await store.claim(request);
      if (answer.status === "pending" && ++refused === waiters) process.send?.({ kind: "waiting" });
      return answer;
    },
  },
  namespace: "scale",
  waitMs: PATIENCE_MS,
  storeTimeoutMs: PATIENCE_MS,
  purgeEveryMs: 0,
});

let lastAt = 0;
let runs = 0;
/** @type {Record<string, number>} */
const statuses = {};
const values = new Set();

async function wait() {
  const result = await guard.tryRun({ operation, key }, () => ++runs);
  lastAt = Number(process.hrtime.bigint() / 1_000n);
  statuses[result.status] = (statuses[result.status] ?? 0) + 1;
  values.add("value" in result ? JSON.stringify(result.value) : result.status);
}

await Promise.all(Array.from({ length: waiters }, wait));
await guard.close();
await store.close();
process.send?.({ kind: "answered", lastAt, statuses, values: [...values], runs });
process.disconnect();
