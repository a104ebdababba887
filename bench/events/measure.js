/**
 * Measures one consumer. The benchmark fails unless every message is processed, once if there is a guard, and every
 * delivery acknowledged.
 */
import { equal } from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { AckPolicy, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { library, openTarget, plan, sendRun, timeLanes } from "../forked-run.js";
import { makeOperations } from "../payload.js";
import { DELIVERIES } from "../suites/events.js";

/** How many messages are fetched ahead, so that the consumer does not wait for the server. */
const AHEAD = 500;
const PUBLISHED_AT_ONCE = 1_000;

const connection = await connect({ servers: plan.urls.nats });
const manager = await jetstreamManager(connection);
await sendRun(async (count, profiled) => {
  const target = await openTarget();
  const runs = new Map();
  const work = (message) => {
    const { order } = message.json();
    runs.set(order, (runs.get(order) ?? 0) + 1);
  };
  const consumer = await library.create({ store: plan.store, target, capacity: count, work });
  const operations = makeOperations(count);
  const perSecond = {};
  let profiles;
  for (const { name } of DELIVERIES) {
    const phase = { phase: name, isProfiled: name === profiled };
    const timed = await consume(phase, operations, consumer.handle);
    perSecond[name] = timed.perSecond;
    profiles ??= timed.profiles;
  }
  const times = consumer.runsAgain ? DELIVERIES.length : 1;
  equal(runs.size, count, `of ${count} messages ${runs.size} were done`);
  for (const [order, done] of runs) equal(done, times, `${order} was done ${done} times`);
  await consumer.close();
  await target.close();
  return { perSecond, profiles };
});
await connection.close();

/** Measures deliveries, from the first that is fetched until the last is acknowledged. All are published before. */
async function consume(phase, operations, handle) {
  const stream = await publish(operations);
  const source = await manager.jetstream().consumers.get(stream, stream);
  let deliveries;
  let messages;
  async function start() {
    deliveries = await source.consume({ max_messages: AHEAD });
    return deliveries[Symbol.asyncIterator]();
  }
  const finish = () => connection.flush();
  const timed = await timeLanes({ ...phase, total: operations.length, finish }, async () => {
    messages ??= start();
    const { value } = await (await messages).next();
    await handle(value);
  });
  deliveries.stop();
  const { num_pending, num_ack_pending } = await manager.consumers.info(stream, stream);
  equal(num_pending + num_ack_pending, 0, "deliveries were not acknowledged");
  await manager.streams.delete(stream);
  return timed;
}

/** Each phase has its own stream, so that the server does not drop the second delivery as a duplicate. */
async function publish(operations) {
  const name = `bench-${randomUUID()}`;
  const retention = RetentionPolicy.Workqueue;
  await manager.streams.add({ name, subjects: [name], retention, storage: StorageType.Memory });
  const ack_policy = AckPolicy.Explicit;
  await manager.consumers.add(name, { durable_name: name, ack_policy, max_ack_pending: -1 });
  const client = manager.jetstream();
  for (let from = 0; from < operations.length; from += PUBLISHED_AT_ONCE)
    await Promise.all(
      operations.slice(from, from + PUBLISHED_AT_ONCE).map(({ key, body }) => {
        const named = headers();
        named.set("message-id", key);
        return client.publish(name, JSON.stringify(body), { headers: named });
      }),
    );
  return name;
}
