/**
 * One run of one contender, in a process of its own: a JIT that has seen another network measures something else. It is
 * forked with a plan as its argument and sends one message back. It rejects, and so fails the whole benchmark, if the
 * contender did not do its job: every message through every node, once if they have keys, and all acknowledged.
 */
import { equal } from "node:assert/strict";
import { createGuard } from "nevertwice";
import { PHASES } from "../events/phases.js";
import { makeOperations, retryOf } from "../payload.js";
import { NODES, networkOf } from "./network.js";

const { store: storeName, url, contender, messages, warmup, inFlight } = JSON.parse(process.argv[2]);
const { openPlace } = await import(`../places/${storeName}.js`);
const { isKeyed, open } = await import(`../contenders/${contender}.js`);
/** One for each node, and one that says that all of it is settled. */
const RECORDS_PER_MESSAGE = NODES.length + 1;

await run(warmup);
process.send(await run(messages));

async function run(count) {
  const place = await openPlace({ url });
  const { store, close } = await open(storeName, place, count * RECORDS_PER_MESSAGE);
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
  await place.close();
  return { perSecond };
}

/** Messages a second, from the first that is pushed to the last that is settled. */
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
