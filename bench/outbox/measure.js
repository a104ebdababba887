/**
 * One run in its own process. It writes messages, lets relays in processes of their own deliver them, and sends one message
 * back. The benchmark fails unless every message was delivered exactly once: no relay is killed here.
 */
import { equal } from "node:assert/strict";
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { openDatabase } from "./databases.js";

const { database, url, scenario, messages, warmup, producers } = JSON.parse(process.argv[2]);

await run(Math.min(warmup, scenario.isHot ? 200 : warmup));
process.send(await run(scenario.isHot ? Math.min(messages, 1_000) : messages));

async function run(count) {
  const target = await openDatabase(database, url);
  const keyOf = (number) => (scenario.isHot ? "hot" : scenario.isKeyed ? `key-${number % 1_000}` : undefined);
  const message = (number) => ({
    topic: "order.paid",
    key: keyOf(number),
    body: { order: number, amount: 42 },
  });
  const all = Array.from({ length: count }, (_, number) => message(number));
  if (!scenario.hasProducers)
    for (let start = 0; start < count; start += 500) await target.sendAll(all.slice(start, start + 500));
  const relays = await Promise.all(Array.from({ length: scenario.relays }, () => startRelay(target.url)));
  const cpuBefore = await target.serverCpu();
  const startedAt = performance.now();
  for (const relay of relays) relay.send("start");
  if (scenario.hasProducers) await produce(target, all);
  await untilDelivered(relays, count);
  // Delivered is not enough: it counts when the database knows it.
  while ((await target.undelivered()) > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuAfter = await target.serverCpu();
  const reports = await askRelays(relays);
  equal(
    reports.reduce((sum, { delivered }) => sum + delivered, 0),
    count,
  );
  for (const relay of relays) relay.send("stop");
  await Promise.all(relays.map((relay) => new Promise((resolve) => relay.once("exit", resolve))));
  await target.close();
  return {
    perSecond: { messages: count / seconds },
    relayMicros: reports.reduce((sum, { cpuMicros }) => sum + cpuMicros, 0) / count,
    serverMicros: cpuAfter === undefined ? undefined : (cpuAfter - (cpuBefore ?? 0)) / count,
  };
}

function startRelay(at) {
  const relay = fork(fileURLToPath(new URL("relay.js", import.meta.url)), [at]);
  return new Promise((resolve) => relay.once("message", () => resolve(relay)));
}

async function produce(target, all) {
  let next = 0;
  await Promise.all(
    Array.from({ length: producers }, async () => {
      while (next < all.length) await target.sendAll([all[next++]]);
    }),
  );
}

/** Asks the relays until they have delivered everything together. */
async function untilDelivered(relays, count) {
  for (;;) {
    const reports = await askRelays(relays);
    if (reports.reduce((sum, { delivered }) => sum + delivered, 0) >= count) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function askRelays(relays) {
  return Promise.all(
    relays.map(
      (relay) =>
        new Promise((resolve) => {
          relay.once("message", resolve);
          relay.send("report");
        }),
    ),
  );
}
