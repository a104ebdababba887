/**
 * One run of one network in its own process, since code that the JIT compiled for another network runs at another speed.
 * It is forked with a plan as its argument and sends one message back. The benchmark fails unless every message went
 * through every node, once if the nodes have keys, and was acknowledged.
 */
import { equal } from "node:assert/strict";
import { createGuard } from "nevertwice";
import { PHASES } from "../events/phases.js";
import { makeOperations, retryOf } from "../payload.js";
import { NODES, networkOf } from "./network.js";

const { store: storeName, url, library, messages, warmup, inFlight } = JSON.parse(process.argv[2]);
const { openDatabase } = await import(`../databases/${storeName}.js`);
const { isKeyed, open } = await import(`../libraries/${library}.js`);
/** One for each node, and one for the whole message. */
const RECORDS_PER_MESSAGE = NODES.length + 1;

await run(warmup);
process.send(await run(messages));

async function run(count) {
  const target = await openDatabase({ url });
  const { store, close } = await open(storeName, target, count * RECORDS_PER_MESSAGE);
  const guard = createGuard({ store });
  const runs = new Map(NODES.map((name) => [name, 0]));
  const network = networkOf(isKeyed, inFlight, (node) => runs.set(node, runs.get(node) + 1));
  const pipeline = await network.start(guard);
  const operations = makeOperations(count);
  const perSecond = {};
  for (const { name } of PHASES) {
    perSecond[name] = await time(pipeline, operations.map(retryOf));
    const times = isKeyed || name === "first" ? 1 : PHASES.length;
    for (const [node, ran] of runs)
      equal(ran, count * times, `${node} ran ${ran} times for ${count} messages`);
  }
  await pipeline.close();
  await guard.close();
  await store.close();
  await close?.();
  await target.close();
  return { perSecond };
}

/** Messages per second, from the first push until the last message is settled. */
async function time(pipeline, operations) {
  const payloads = operations.map(({ key, body }) => ({ key, ...body }));
  global.gc();
  const startedAt = performance.now();
  let taken = 0;
  async function lane() {
    while (taken < payloads.length) {
      const payload = payloads[taken++];
      const { verdict } = await pipeline.push("orders", payload, { id: payload.key });
      equal(verdict, "acknowledge");
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane));
  return payloads.length / ((performance.now() - startedAt) / 1_000);
}
