/** Tests RabbitMQ: a message for each verdict, with a consumer that dies, and with a channel that closes. */
import { randomUUID } from "node:crypto";
import { type Channel, type ChannelModel, type ConsumeMessage, connect, type Options } from "amqplib";
import { expect, onTestFinished, type TestContext, test, vi } from "vitest";
import { type ConsumerEvent, type ConsumerOptions, consumer } from "../../src/events/index.ts";
import {
  consumeRabbitmq,
  messageId,
  publishOnce,
  type RabbitmqEvent,
  type RabbitmqOptions,
} from "../../src/events/rabbitmq.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { sharedUrl } from "../services/services.ts";
import { crowdOf } from "./crowd.ts";

const WAIT = { timeout: 15_000, interval: 20 };

function newGuard(): Guard {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

async function connectTo(context: TestContext): Promise<ChannelModel> {
  const connection = await connect(sharedUrl(context, "rabbitmq"));
  connection.on("error", () => {});
  onTestFinished(() => connection.close().catch(() => {}));
  return connection;
}

async function openChannel(connection: ChannelModel): Promise<Channel> {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  return channel;
}

type Consuming<T> = Partial<ConsumerOptions<ConsumeMessage, T>> &
  Pick<ConsumerOptions<ConsumeMessage, T>, "work">;

interface Queues {
  readonly queue: string;
  /** The queue's dead-letter queue. */
  readonly dead: string;
  send(content: string, options?: Options.Publish): Promise<void>;
  /** The next message of the dead-letter queue. */
  buried(): Promise<ConsumeMessage>;
  count(queue: string): Promise<number>;
}

/** Two queues for one test, the first with its dead letters in the second. */
async function openQueues(connection: ChannelModel): Promise<Queues> {
  const channel = await connection.createConfirmChannel();
  const name = randomUUID();
  const dead = `${name}-dead`;
  const own = { durable: false, autoDelete: false };
  await channel.assertQueue(dead, own);
  await channel.assertQueue(name, { ...own, deadLetterExchange: "", deadLetterRoutingKey: dead });
  onTestFinished(async () => {
    await channel.deleteQueue(name);
    await channel.deleteQueue(dead);
  });
  return {
    queue: name,
    dead,
    async send(content, options) {
      channel.sendToQueue(name, Buffer.from(content), options);
      await channel.waitForConfirms();
    },
    buried: () =>
      vi.waitFor(async () => {
        const message = await channel.get(dead, { noAck: true });
        if (message === false) throw new Error("nothing was dead-lettered");
        return message as unknown as ConsumeMessage;
      }, WAIT),
    count: async (queue) => (await channel.checkQueue(queue)).messageCount,
  };
}

/** Consumes until the test ends, and collects the events. */
async function consume<T>(
  guard: Guard,
  of: Consuming<T>,
  options: RabbitmqOptions<ConsumeMessage>,
): Promise<{ close: () => Promise<{ unfinished: number }>; events: RabbitmqEvent[] }> {
  const events: RabbitmqEvent[] = [];
  const consuming = consumer<ConsumeMessage, T>(guard, { name: "shop", key: messageId, laterMs: 10, ...of });
  const { close } = await consumeRabbitmq(consuming, {
    onEvent: (event) => events.push(event),
    ...options,
  });
  onTestFinished(async () => void (await close({ drainMs: 0 })));
  return { close, events };
}

test("acknowledges a message that is done, and acknowledges it again without running it", async (context) => {
  const connection = await connectTo(context);
  const { queue, send, count } = await openQueues(connection);
  const channel = await openChannel(connection);
  const done: string[] = [];
  const statuses: string[] = [];
  const { close } = await consume(
    newGuard(),
    {
      work: (message) => void done.push(message.content.toString()),
      onEvent: ({ kind }) => statuses.push(kind),
    },
    { channel, queue },
  );
  await send("first", { messageId: "1" });
  await vi.waitFor(() => expect(statuses).toEqual(["done"]), WAIT);
  await send("again", { messageId: "1" });
  await vi.waitFor(() => expect(statuses).toEqual(["done", "done-before"]), WAIT);
  expect(done).toEqual(["first"]);
  // The event comes before the acknowledgement.
  await close();
  // A message that was not acknowledged would be delivered again.
  await channel.close();
  expect(await count(queue)).toBe(0);
});

test("delivers a failed message again until it is done", async (context) => {
  const connection = await connectTo(context);
  const { queue, send } = await openQueues(connection);
  const seen: { redelivered: boolean; attempt: number }[] = [];
  await consume(
    newGuard(),
    {
      work({ fields: { redelivered } }, { number }) {
        seen.push({ redelivered, attempt: number });
        if (number < 3) throw new Error("not yet");
      },
    },
    { channel: await openChannel(connection), queue },
  );
  await send("{}", { messageId: "1" });
  const once = { redelivered: false, attempt: 1 };
  const again = [2, 3].map((attempt) => ({ redelivered: true, attempt }));
  await vi.waitFor(() => expect(seen).toEqual([once, ...again]), WAIT);
});

test("dead-letters a message that failed for good, with the broker's x-death header", async (context) => {
  const connection = await connectTo(context);
  const { queue, send, buried } = await openQueues(connection);
  const { events } = await consume(
    newGuard(),
    {
      maxAttempts: 2,
      work() {
        throw new Error("never");
      },
    },
    { channel: await openChannel(connection), queue },
  );
  await send("poison", { messageId: "1" });
  const { content, properties } = await buried();
  expect(content.toString()).toBe("poison");
  expect(properties.headers?.["x-death"]).toMatchObject([{ queue, reason: "rejected", count: 1 }]);
  expect(events).toMatchObject([{ kind: "rejected", queue, error: { message: "never" } }]);
});

test("dead-letters a message without an id, and never processes it", async (context) => {
  const connection = await connectTo(context);
  const { queue, send, buried } = await openQueues(connection);
  const work = vi.fn();
  const { events } = await consume(newGuard(), { work }, { channel: await openChannel(connection), queue });
  await send("anonymous");
  expect((await buried()).content.toString()).toBe("anonymous");
  expect(events).toMatchObject([{ kind: "rejected", error: { code: "key-missing" } }]);
  expect(work).not.toHaveBeenCalled();
});

test("without a dead-letter exchange onRejected stores the message, which comes again if that fails", async (context) => {
  const connection = await connectTo(context);
  const { queue, send, count } = await openQueues(connection);
  const kept: string[] = [];
  let tries = 0;
  const { events } = await consume(
    newGuard(),
    { work: () => {} },
    {
      channel: await openChannel(connection),
      queue,
      maxHoldMs: 10,
      onRejected(message) {
        if (++tries === 1) throw new Error("full");
        kept.push(message.content.toString());
      },
    },
  );
  await send("anonymous");
  await vi.waitFor(() => expect(kept).toEqual(["anonymous"]), WAIT);
  await vi.waitFor(() => expect(events.map(({ kind }) => kind)).toEqual(["unanswered", "rejected"]), WAIT);
  expect(await count(queue)).toBe(0);
});

test("lets another consumer process the message of a lost connection, and repeats no work that is done", async (context) => {
  const connection = await connectTo(context);
  const { queue, send } = await openQueues(connection);
  const guard = newGuard();
  const doomed = await connectTo(context);
  const done: string[] = [];
  const { promise: begun, resolve: begin } = deferred();
  const { promise: held, resolve: release } = deferred();
  const { events } = await consume(
    guard,
    {
      async work({ properties }) {
        begin();
        await held;
        done.push(properties.messageId);
      },
    },
    { channel: await openChannel(doomed), queue },
  );
  await send("{}", { messageId: "1" });
  // An empty queue would not tell: the broker may not have taken the message yet.
  await begun;
  await doomed.close();
  const statuses: string[] = [];
  await consume(
    guard,
    {
      work: ({ properties }) => void done.push(`again ${properties.messageId}`),
      onEvent: ({ kind }) => statuses.push(kind),
    },
    { channel: await openChannel(connection), queue },
  );
  // The first consumer is still working, although its connection is closed.
  await vi.waitFor(() => expect(statuses).toContain("pending"), WAIT);
  release();
  await vi.waitFor(() => expect(statuses).toContain("done-before"), WAIT);
  expect(done).toEqual(["1"]);
  // Its acknowledgement failed, and that is reported.
  expect(events.map(({ kind }) => kind)).toEqual(["unanswered"]);
});

test("EV-09 two consumers of one event, each with its own queue, process it once each", async (context) => {
  const connection = await connectTo(context);
  const guard = newGuard();
  const done: string[] = [];
  const statuses: string[] = [];
  const queues = await Promise.all(
    ["billing", "shipping"].map(async (name) => {
      const opened = await openQueues(connection);
      const channel = await openChannel(connection);
      const of = {
        name,
        operation: "order",
        work: () => void done.push(name),
        onEvent: ({ kind }: ConsumerEvent) => statuses.push(kind),
      };
      await consume(guard, of, { channel, queue: opened.queue });
      return opened;
    }),
  );
  for (const { send } of [...queues, ...queues]) await send("{}", { messageId: "1" });
  const each = ["done", "done", "done-before", "done-before"];
  await vi.waitFor(
    () => expect(statuses.filter((kind) => kind !== "pending").toSorted()).toEqual(each),
    WAIT,
  );
  expect(done.toSorted()).toEqual(["billing", "shipping"]);
});

test("processes at most prefetch messages at once", async (context) => {
  const connection = await connectTo(context);
  const { queue, send } = await openQueues(connection);
  const { work, done, most } = crowdOf(3);
  for (let i = 0; i < 20; i++) await send("{}", { messageId: String(i) });
  await consume(newGuard(), { work }, { channel: await openChannel(connection), queue, prefetch: 3 });
  await vi.waitFor(() => expect(done()).toBe(20), WAIT);
  expect(most()).toBe(3);
});

test("close takes no more messages, returns held ones, and waits for started ones", async (context) => {
  const connection = await connectTo(context);
  const { queue, send, count } = await openQueues(connection);
  const statuses: string[] = [];
  const { promise: held, resolve: release } = deferred();
  const { close } = await consume(
    newGuard(),
    {
      laterMs: 3_600_000,
      maxLaterMs: 3_600_000,
      async work({ properties }) {
        if (properties.messageId === "fails") throw new Error("later");
        statuses.push("begun");
        await held;
      },
      onEvent: ({ kind }) => statuses.push(kind),
    },
    { channel: await openChannel(connection), queue, maxHoldMs: 3_600_000 },
  );
  await send("{}", { messageId: "fails" });
  await send("{}", { messageId: "slow" });
  await vi.waitFor(() => expect(statuses.toSorted()).toEqual(["begun", "failed"]), WAIT);
  const closed = close();
  await vi.waitFor(async () => expect(await count(queue)).toBe(1), WAIT);
  release();
  expect(await closed).toEqual({ unfinished: 0 });
  expect(statuses).toContain("done");
  await send("{}", { messageId: "after" });
  expect(await count(queue)).toBe(2);
});

test("reports a deleted queue, and close still resolves", async (context) => {
  const connection = await connectTo(context);
  const { queue } = await openQueues(connection);
  const channel = await openChannel(connection);
  const { events, close } = await consume(newGuard(), { work: () => {} }, { channel, queue });
  await (await openChannel(connection)).deleteQueue(queue);
  await vi.waitFor(() => expect(events).toEqual([{ kind: "cancelled", queue }]), WAIT);
  await channel.close();
  expect(await close()).toEqual({ unfinished: 0 });
});

test("EV-20 a message that is published again under the same id is processed once", async (context) => {
  const connection = await connectTo(context);
  const { queue } = await openQueues(connection);
  const confirming = await connection.createConfirmChannel();
  const guard = newGuard();
  const done: string[] = [];
  const statuses: string[] = [];
  await consume(
    guard,
    {
      work: ({ properties }) => void done.push(properties.messageId),
      onEvent: ({ kind }) => statuses.push(kind),
    },
    { channel: await openChannel(connection), queue },
  );
  const ids: string[] = [];
  for (let attempts = 1; attempts <= 2; attempts++) {
    const publishing = guard.run({ operation: "order", key: "17" }, async (attempt) => {
      const id = attempt.deriveKey("ordered");
      ids.push(id);
      const content = Buffer.from("{}");
      await publishOnce(confirming, { id, routingKey: queue, content }, { type: "ordered" });
      if (attempts === 1) throw new Error("the answer was lost");
    });
    await publishing.catch(() => {});
  }
  await vi.waitFor(() => expect(statuses).toEqual(["done", "done-before"]), WAIT);
  expect(new Set(ids).size).toBe(1);
  expect(done).toEqual([ids[0]]);
});

test("publishing fails if the broker refuses the message, and without an id", async (context) => {
  const connection = await connectTo(context);
  const confirming = await connection.createConfirmChannel();
  confirming.on("error", () => {});
  const content = Buffer.from("{}");
  await expect(publishOnce(confirming, { id: "", routingKey: "q", content })).rejects.toMatchObject({
    code: "key-missing",
  });
  // @ts-expect-error It is an option of neither.
  await publishOnce(confirming, { id: "1", routingKey: "q", content }, { colour: "red" });
  const nowhere = { id: "1", exchange: `none-${randomUUID()}`, routingKey: "q", content };
  await expect(publishOnce(confirming, nowhere)).rejects.toThrow();
  await expect(publishOnce(confirming, nowhere)).rejects.toThrow("closed");
});

test("bad options are refused, with the fix", async (context) => {
  const connection = await connectTo(context);
  const channel = await openChannel(connection);
  const consuming = consumer<ConsumeMessage>(newGuard(), { name: "shop", key: messageId, work: () => {} });
  const refused = (options: object) =>
    expect(consumeRabbitmq(consuming, options as RabbitmqOptions<ConsumeMessage>)).rejects;
  await refused({ channel }).toThrow("queue is missing");
  await refused({ channel: connection, queue: "q" }).toThrow("createChannel()");
  await refused({ channel, queue: "q", prefetch: 0 }).toThrow("prefetch");
  await refused({ channel, queue: "q", colour: "red" }).toMatchObject({ code: "options-invalid" });
});
