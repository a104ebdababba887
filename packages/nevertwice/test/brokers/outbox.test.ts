/**
 * Tests the deliverers of the outbox with real brokers, end to end: a message that commits in SQLite reaches a consumer of
 * ours through the broker, which recognises a second delivery by its id. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { AckPolicy, type JsMsg, jetstream, jetstreamManager, StorageType } from "@nats-io/jetstream";
import { connect as connectNats, headers } from "@nats-io/transport-node";
import { DatabaseSync } from "@photostructure/sqlite";
import { type ConfirmChannel, connect as connectRabbitmq } from "amqplib";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { consumer } from "../../src/events/index.ts";
import { consumeNats, messageId as natsMessageId } from "../../src/events/nats.ts";
import { consumeRabbitmq, messageId as rabbitmqMessageId } from "../../src/events/rabbitmq.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { createOutbox, type Deliver, type RelayEvent } from "../../src/outbox/index.ts";
import { natsDeliverer } from "../../src/outbox/nats.ts";
import { rabbitmqDeliverer } from "../../src/outbox/rabbitmq.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { sharedUrl } from "../services/services.ts";
import { createScene, startRelay } from "../stores/outbox/scene.ts";
import { startProcess } from "../stores/sqlite/child-process.ts";

function newGuard() {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

async function openChannel(
  context: TestContext,
): Promise<{ readonly channel: ConfirmChannel; readonly queue: string }> {
  const connection = await connectRabbitmq(sharedUrl(context, "rabbitmq"));
  connection.on("error", () => {});
  onTestFinished(() => connection.close().catch(() => {}));
  const channel = await connection.createConfirmChannel();
  channel.on("error", () => {});
  const queue = randomUUID();
  await channel.assertQueue(queue, { durable: true, autoDelete: true });
  return { channel, queue };
}

/** Without those of a claim that met the transaction of the test, which uses the same connection. */
function kindsIn(events: readonly RelayEvent[]): readonly string[] {
  return events.map(({ kind }) => kind).filter((kind) => kind !== "unavailable");
}

/** Throws after the broker has the message, as a relay does that is killed at that moment: it is delivered again. */
function forgetful(deliver: Deliver): Deliver {
  let isForgotten = false;
  return async (message, context) => {
    await deliver(message, context);
    if (isForgotten) return;
    isForgotten = true;
    throw new Error("killed after the delivery");
  };
}

test("delivers to RabbitMQ, and a consumer of ours processes a repeated message once", async (context) => {
  const { channel, queue } = await openChannel(context);
  const { outbox, send } = await createScene("sqlite", context);
  const seen: unknown[] = [];
  const ids: unknown[] = [];
  const guarded = consumer(newGuard(), {
    name: "mail",
    key: rabbitmqMessageId,
    work: (message) => {
      seen.push(JSON.parse(message.content.toString()));
      expect(message.properties).toMatchObject({
        deliveryMode: 2,
        type: "order.paid",
        headers: { trace: "t1" },
      });
    },
  });
  const consuming = await consumeRabbitmq(guarded, { channel, queue });
  onTestFinished(async () => void (await consuming.close()));
  const deliver = rabbitmqDeliverer({ channel, routingKey: () => queue });
  const { events } = startRelay(
    outbox,
    forgetful((message, context) => {
      ids.push(message.id);
      return deliver(message, context);
    }),
    { retry: { baseMs: 1 } },
  );
  for (const number of [1, 2, 3])
    await send({ topic: "order.paid", key: "order", body: { number }, headers: { trace: "t1" } });
  await expect.poll(() => events.filter(({ kind }) => kind === "delivered").length).toBe(3);
  await expect.poll(() => seen).toEqual([{ number: 1 }, { number: 2 }, { number: 3 }]);
  expect(ids.length).toBe(4);
  expect(ids[0]).toBe(ids[1]);
});

test("counts a message that no queue of RabbitMQ takes as failed", async (context) => {
  const { channel } = await openChannel(context);
  const { outbox, send } = await createScene("sqlite", context);
  const { events } = startRelay(outbox, rabbitmqDeliverer({ channel, routingKey: () => "nowhere" }), {
    maxAttempts: 2,
    retry: { baseMs: 1 },
  });
  await send({ topic: "t", body: 1 });
  await expect.poll(() => kindsIn(events)).toEqual(["failed", "parked"]);
  expect(events.at(-1)).toMatchObject({ error: expect.stringContaining("no queue took the message") });
});

test("delivers to a stream of NATS, which stores a repeated message once", async (context) => {
  const connection = await connectNats({ servers: sharedUrl(context, "nats") });
  onTestFinished(() => connection.close());
  const manager = await jetstreamManager(connection);
  const stream = `S${randomUUID().slice(0, 8)}`;
  await manager.streams.add({ name: stream, subjects: [`${stream}.>`], storage: StorageType.Memory });
  await manager.consumers.add(stream, { durable_name: "c", ack_policy: AckPolicy.Explicit });
  const js = jetstream(connection);
  const seen: unknown[] = [];
  const guarded = consumer(newGuard(), {
    name: "mail",
    key: natsMessageId,
    work: (message: JsMsg) =>
      void seen.push([message.subject, message.string(), message.headers?.get("trace")]),
  });
  const messages = await (await js.consumers.get(stream, "c")).consume();
  const consuming = consumeNats(guarded, { messages });
  onTestFinished(async () => void (await consuming.close()));
  const { outbox, send } = await createScene("sqlite", context);
  const deliver = natsDeliverer({ js, subject: ({ topic }) => `${stream}.${topic}`, headers });
  const { events } = startRelay(outbox, forgetful(deliver), { retry: { baseMs: 1 } });
  await send({ topic: "paid", key: "k", body: "one", headers: { trace: "t1" } });
  await send({ topic: "paid", key: "k", body: new Uint8Array([50]) });
  await expect.poll(() => events.filter(({ kind }) => kind === "delivered").length).toBe(2);
  await expect
    .poll(() => seen)
    .toEqual([
      [`${stream}.paid`, "one", "t1"],
      [`${stream}.paid`, "2", ""],
    ]);
  expect((await manager.streams.info(stream)).state.messages).toBe(2);
});

test("counts a message that no stream of NATS takes as failed", async (context) => {
  const connection = await connectNats({ servers: sharedUrl(context, "nats") });
  onTestFinished(() => connection.close());
  const { outbox, send } = await createScene("sqlite", context);
  const { events } = startRelay(outbox, natsDeliverer({ js: jetstream(connection) }), { maxAttempts: 1 });
  await send({ topic: `nowhere.${randomUUID()}`, body: 1 });
  await expect.poll(() => kindsIn(events)).toEqual(["parked"]);
});

const CHILD = fileURLToPath(new URL("outbox-child.js", import.meta.url));
const KEYS = ["a", "b", "c", "d", "e"];
const NUMBERS = [0, 1, 2, 3];

/** Sends messages of some keys, and has them delivered by relays that kill themselves, and by one that does not. */
async function deliverThroughKills(context: TestContext, broker: "rabbitmq" | "nats", target: string) {
  const file = join(await scratchFolder(context), "outbox.db");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  const outbox = createOutbox({ database });
  await outbox.migrate();
  database.exec("BEGIN");
  const ids = NUMBERS.flatMap((number) =>
    KEYS.map((key) => outbox.send(database, { topic: "paid", key, body: `${key}${number}` })),
  );
  database.exec("COMMIT");
  await outbox.close();
  database.close();
  for (const after of [1, 3, 0]) {
    const { ended, process } = startProcess([
      CHILD,
      broker,
      sharedUrl(context, broker),
      file,
      target,
      String(after),
    ]);
    const { complaint } = await ended;
    expect([process.signalCode, complaint]).toEqual([after === 0 ? null : "SIGKILL", ""]);
  }
  return ids;
}

test("a relay that is killed after RabbitMQ has a message delivers it again with its id, and loses none", async (context) => {
  const { channel, queue } = await openChannel(context);
  const arrived: { readonly id: string; readonly body: string }[] = [];
  await channel.consume(
    queue,
    (message) => {
      if (message === null) return;
      arrived.push({ id: message.properties.messageId, body: message.content.toString() });
      channel.ack(message);
    },
    {},
  );
  const ids = await deliverThroughKills(context, "rabbitmq", queue);
  await expect.poll(() => new Set(arrived.map(({ id }) => id))).toEqual(new Set(ids));
  // Both kills came after a confirmation, so that at least those messages came twice.
  expect(arrived.length).toBeGreaterThanOrEqual(ids.length + 2);
  const distinct = new Map(arrived.map(({ id, body }) => [id, body]));
  expect([...distinct.values()].sort()).toEqual(
    KEYS.flatMap((key) => NUMBERS.map((number) => `${key}${number}`)),
  );
  expect(new Set(arrived.map(({ id, body }) => `${id} ${body}`)).size).toBe(ids.length);
  for (const key of KEYS) {
    const bodies = arrived.map(({ body }) => body).filter((body) => body.startsWith(key));
    expect(bodies).toEqual([...bodies].sort());
  }
});

test("a relay that is killed after NATS has a message delivers it again, and the stream keeps each message once", async (context) => {
  const connection = await connectNats({ servers: sharedUrl(context, "nats") });
  onTestFinished(() => connection.close());
  const manager = await jetstreamManager(connection);
  const stream = `S${randomUUID().slice(0, 8)}`;
  await manager.streams.add({ name: stream, subjects: [`${stream}.>`], storage: StorageType.Memory });
  const ids = await deliverThroughKills(context, "nats", `${stream}.paid`);
  const stored: unknown[] = [];
  for (let seq = 1; seq <= ids.length; seq++) {
    const message = await manager.streams.getMessage(stream, { seq });
    stored.push(message?.header.get("Nats-Msg-Id"));
  }
  expect(new Set(stored)).toEqual(new Set(ids));
  expect((await manager.streams.info(stream)).state.messages).toBe(ids.length);
});
