/**
 * Measures one network. The benchmark fails unless every message went through every node, once if the nodes have keys, and
 * was acknowledged.
 */
import { equal } from "node:assert/strict";
import { createGuard } from "nevertwice";
import { library, openTarget, plan, sendRun, timeLanes } from "../forked-run.js";
import { makeOperations, retryOf } from "../payload.js";
import { DELIVERIES } from "../suites/events.js";
import { NODES, networkOf } from "./network.js";

/** One for each node, and one for the whole message. */
const RECORDS_PER_MESSAGE = NODES.length + 1;
const { isKeyed } = library;

await sendRun(async (count, profiled) => {
  const target = await openTarget();
  const { store, close } = await library.open(plan.store, target, count * RECORDS_PER_MESSAGE);
  const guard = createGuard({ store });
  const runs = new Map(NODES.map((name) => [name, 0]));
  const network = networkOf(isKeyed, plan.inFlight, (node) => runs.set(node, runs.get(node) + 1));
  const pipeline = await network.start(guard);
  const operations = makeOperations(count);
  const perSecond = {};
  let profiles;
  for (const { name } of DELIVERIES) {
    const payloads = operations.map(retryOf).map(({ key, body }) => ({ key, ...body }));
    const timed = await timeLanes({ phase: name, total: count, isProfiled: name === profiled }, async (n) => {
      const { verdict } = await pipeline.push("orders", payloads[n], { id: payloads[n].key });
      equal(verdict, "acknowledge");
    });
    perSecond[name] = timed.perSecond;
    profiles ??= timed.profiles;
    const times = isKeyed || name === "first" ? 1 : DELIVERIES.length;
    for (const [node, ran] of runs)
      equal(ran, count * times, `${node} ran ${ran} times for ${count} messages`);
  }
  await pipeline.close();
  await guard.close();
  await store.close();
  await close?.();
  await target.close();
  return { perSecond, profiles };
});
