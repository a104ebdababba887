/**
 * One run of one consumer in its own process, since code that the JIT compiled for another consumer runs at another
 * speed. It is forked with a plan as its argument and sends one message back. The benchmark fails unless every message
 * is processed, once if there is a guard, and every delivery acknowledged.
 */
import { equal } from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { AckPolicy, jetstreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { connect, headers } from "@nats-io/transport-node";
import { makeOperations } from "../payload.js";
import { PHASES } from "./phases.js";

const { store, url, natsUrl, library, messages, warmup, inFlight } = JSON.parse(process.argv[2]);
const { openDatabase } = await import(`../databases/${store}.js`);
const { create } = await import(`../libraries/${library}.js`);
/** So many messages are fetched ahead, so that the consumer does not wait for the server. */
const AHEAD = 500;
const PUBLISHED_AT_ONCE = 1_000;

const connection = await connect({ servers: natsUrl });
const manager = await jetstreamManager(connection);
await run(warmup);
process.send(await run(messages));
await connection.close();

async function run(count) {
  const target = await openDatabase({ url });
  const runs = new Map();
  const work = (message) => {
    const { order } = message.json();
    runs.set(order, (runs.get(order) ?? 0) + 1);
  };
  const library = await create({ store, target, capacity: count, work });
  const operations = makeOperations(count);
  const perSecond = {};
  for (const { name } of PHASES) perSecond[name] = await time(operations, library.handle);
  const times = library.runsAgain ? PHASES.length : 1;
  equal(runs.size, count, `of ${count} messages ${runs.size} were done`);
  for (const [order, done] of runs) equal(done, times, `${order} was done ${done} times`);
  await library.close();
  await target.close();
  return { perSecond };
}

/** Deliveries per second, from the first that is fetched until the last is acknowledged. All are published before. */
async function time(operations, handle) {
  const stream = await publish(operations);
  const source = await manager.jetstream().consumers.get(stream, stream);
  global.gc();
  const startedAt = performance.now();
  const deliveries = await source.consume({ max_messages: AHEAD });
  const each = deliveries[Symbol.asyncIterator]();
  let taken = 0;
  async function lane() {
    while (taken < operations.length) {
      taken++;
      const { value } = await each.next();
      await handle(value);
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane));
  await connection.flush();
  const seconds = (performance.now() - startedAt) / 1_000;
  deliveries.stop();
  const { num_pending, num_ack_pending } = await manager.consumers.info(stream, stream);
  equal(num_pending + num_ack_pending, 0, "deliveries were not acknowledged");
  await manager.streams.delete(stream);
  return operations.length / seconds;
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
