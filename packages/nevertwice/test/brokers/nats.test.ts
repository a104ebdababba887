/** Tests NATS JetStream: a message for each verdict, a message in progress, and a consumer that dies. */
import { randomUUID } from "node:crypto";
import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerMessages,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
  StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import { connect, type NatsConnection, nanos } from "@nats-io/transport-node";
import { expect, onTestFinished, type TestContext, test, vi } from "vitest";
import type { GuardOptions } from "../../src/core/engine.ts";
import { type ConsumerEvent, type ConsumerOptions, consumer } from "../../src/events/index.ts";
import {
  consumeNats,
  messageId,
  messageKey,
  type NatsEvent,
  type NatsOptions,
  natsHandler,
  publishOnce,
  streamPlace,
} from "../../src/events/nats.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { sharedUrl } from "../services/services.ts";
import { crowdOf } from "./crowd.ts";

const WAIT = { timeout: 15_000, interval: 20 };

/** Longer than any of these tests takes: a message comes again within it only after a nak. */
const LONG_MS = 60_000;

function newGuard(options: Partial<GuardOptions> = {}): Guard {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, drainMs: 0, ...options });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

async function connectTo(context: TestContext): Promise<NatsConnection> {
  const connection = await connect({ servers: sharedUrl(context, "nats") });
  onTestFinished(() => connection.close());
  return connection;
}

interface Stream {
  readonly name: string;
  readonly js: JetStreamClient;
  readonly manager: JetStreamManager;
  /** Creates a durable consumer. */
  consumer(name: string, config?: Partial<ConsumerConfig>): Promise<void>;
  /** Messages of that consumer, over the given connection if there is one. */
  messages(name: string, from?: NatsConnection, most?: number): Promise<ConsumerMessages>;
  /** How many messages are delivered but not settled, and how many are not delivered yet. */
  left(name: string): Promise<readonly [unsettled: number, waiting: number]>;
}

async function openStream(connection: NatsConnection, config: Partial<StreamConfig> = {}): Promise<Stream> {
  const manager = await jetstreamManager(connection);
  const name = `S${randomUUID().slice(0, 8)}`;
  await manager.streams.add({ name, subjects: [name], storage: StorageType.Memory, ...config });
  onTestFinished(async () => void (await manager.streams.delete(name).catch(() => {})));
  return {
    name,
    js: jetstream(connection),
    manager,
    async consumer(durable_name, given) {
      const ack_policy = AckPolicy.Explicit;
      await manager.consumers.add(name, { durable_name, ack_policy, ack_wait: nanos(LONG_MS), ...given });
    },
    async messages(durable, from = connection, most = 100) {
      const found = await jetstream(from).consumers.get(name, durable);
      return found.consume({ max_messages: most });
    },
    async left(durable) {
      const { num_ack_pending, num_pending } = await manager.consumers.info(name, durable);
      return [num_ack_pending, num_pending];
    },
  };
}

type Consuming<T> = Partial<ConsumerOptions<JsMsg, T>> & Pick<ConsumerOptions<JsMsg, T>, "work">;

/** Consumes until the test ends. */
function consume<T>(guard: Guard, of: Consuming<T>, options: NatsOptions<JsMsg>) {
  const events: NatsEvent[] = [];
  const kinds: string[] = [];
  const consuming = consumer<JsMsg, T>(guard, {
    name: "shop",
    key: messageKey,
    laterMs: 10,
    onEvent: ({ kind }: ConsumerEvent) => kinds.push(kind),
    ...of,
  });
  const consumption = consumeNats(consuming, { onEvent: (event) => events.push(event), ...options });
  onTestFinished(async () => void (await consumption.close({ drainMs: 0 })));
  return { ...consumption, events, kinds };
}

test("acknowledges a message that is done, and acknowledges a duplicate without running it", async (context) => {
  const stream = await openStream(await connectTo(context), { duplicate_window: nanos(100) });
  await stream.consumer("shop");
  const done: number[] = [];
  const { kinds } = consume(
    newGuard(),
    { work: ({ seq }) => void done.push(seq) },
    { messages: await stream.messages("shop") },
  );
  // Past the stream's duplicate window: then only the consumer knows the key.
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  await vi.waitFor(async () => {
    const { duplicate } = await stream.js.publish(stream.name, "{}", { msgID: "1" });
    expect(duplicate).toBe(false);
  }, WAIT);
  await vi.waitFor(
    () => expect(kinds.filter((kind) => kind !== "pending")).toEqual(["done", "done-before"]),
    WAIT,
  );
  expect(done).toEqual([1]);
  await vi.waitFor(async () => expect(await stream.left("shop")).toEqual([0, 0]), WAIT);
});

test("delivers a failed message again after a delay until it is done", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const seen: { delivery: number; attempt: number }[] = [];
  consume(
    newGuard(),
    {
      work({ info: { deliveryCount } }, { number }) {
        seen.push({ delivery: deliveryCount, attempt: number });
        if (number < 3) throw new Error("not yet");
      },
    },
    { messages: await stream.messages("shop") },
  );
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  const expected = [1, 2, 3].map((number) => ({ delivery: number, attempt: number }));
  await vi.waitFor(() => expect(seen).toEqual(expected), WAIT);
});

test("terminates a rejected message after onRejected has stored it", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const kept: string[] = [];
  let tries = 0;
  const { events, kinds } = consume(
    newGuard(),
    {
      isPermanent: () => true,
      onFailure: "remember",
      work() {
        throw new Error("never");
      },
    },
    {
      messages: await stream.messages("shop"),
      onRejected(message) {
        if (++tries === 1) throw new Error("full");
        kept.push(message.string());
      },
    },
  );
  await stream.js.publish(stream.name, "poison", { msgID: "1" });
  await vi.waitFor(() => expect(kept).toEqual(["poison"]), WAIT);
  await vi.waitFor(async () => expect(await stream.left("shop")).toEqual([0, 0]), WAIT);
  expect(kinds).toEqual(["failed", "failed-before"]);
  const place = { stream: stream.name, sequence: 1 };
  expect(events).toMatchObject([
    { kind: "unanswered", ...place, error: { message: "full" } },
    { kind: "rejected", ...place, error: { message: "never" } },
  ]);
});

test("rejects a message without an id if messageId is the key", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const work = vi.fn();
  const { events } = consume(
    newGuard(),
    { key: messageId, work },
    { messages: await stream.messages("shop") },
  );
  await stream.js.publish(stream.name, "anonymous");
  await vi.waitFor(
    () => expect(events).toMatchObject([{ kind: "rejected", error: { code: "key-missing" } }]),
    WAIT,
  );
  await vi.waitFor(async () => expect(await stream.left("shop")).toEqual([0, 0]), WAIT);
  expect(work).not.toHaveBeenCalled();
});

test("uses the place of a message without an id as its key, which a recreated stream does not repeat", async (context) => {
  const connection = await connectTo(context);
  const stream = await openStream(connection);
  const placed: string[] = [];
  const read = async (): Promise<void> => {
    await stream.consumer("shop");
    await stream.js.publish(stream.name, "{}");
    const message = await (await stream.js.consumers.get(stream.name, "shop")).next();
    expect(message && String(messageKey(message))).toBe(message && streamPlace(message).text);
    message?.nak();
    const again = await (await stream.js.consumers.get(stream.name, "shop")).next();
    expect([again?.seq, again && streamPlace(again).text]).toEqual([1, message && streamPlace(message).text]);
    if (again) placed.push(streamPlace(again).text);
  };
  await read();
  await stream.manager.streams.delete(stream.name);
  await stream.manager.streams.add({ name: stream.name, subjects: [stream.name] });
  await read();
  expect(new Set(placed).size).toBe(2);
});

test("keeps a message in progress while its claim is renewed: NATS does not send it again", async (context) => {
  const stream = await openStream(await connectTo(context));
  const ackWaitMs = 1_500;
  await stream.consumer("shop", { ack_wait: nanos(ackWaitMs) });
  const { promise: held, resolve: release } = deferred();
  const { kinds } = consume(
    newGuard({ leaseMs: 900 }),
    { work: () => held },
    { messages: await stream.messages("shop") },
  );
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  await new Promise((resolve) => setTimeout(resolve, 2.5 * ackWaitMs));
  const { num_redelivered } = await stream.manager.consumers.info(stream.name, "shop");
  expect(num_redelivered).toBe(0);
  release();
  await vi.waitFor(() => expect(kinds).toEqual(["done"]), WAIT);
});

test("lets another consumer process the message of a lost connection once its claim has lapsed", async (context) => {
  const connection = await connectTo(context);
  const stream = await openStream(connection);
  await stream.consumer("shop", { ack_wait: nanos(300) });
  const store = memoryStore();
  const doomed = await connectTo(context);
  const { promise: isBegun, resolve: begun } = deferred();
  const dying = newGuard({ store, leaseMs: 300, maxRunMs: 300 });
  const work = () => {
    begun();
    return new Promise<never>(() => {});
  };
  const { events } = consume(dying, { work }, { messages: await stream.messages("shop", doomed) });
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  await isBegun;
  await doomed.close();
  const done: number[] = [];
  const { kinds } = consume(
    newGuard({ store }),
    { work: (_message, { number }) => void done.push(number) },
    { messages: await stream.messages("shop") },
  );
  await vi.waitFor(() => expect(kinds).toContain("done"), WAIT);
  expect(done).toEqual([2]);
  await vi.waitFor(() => expect(events.map(({ kind }) => kind)).toContain("ended"), WAIT);
});

test("EV-09 two consumers of one stream process the message once each", async (context) => {
  const connection = await connectTo(context);
  const stream = await openStream(connection, { duplicate_window: nanos(100) });
  const guard = newGuard();
  const done: string[] = [];
  const watched = await Promise.all(
    ["billing", "shipping"].map(async (name) => {
      await stream.consumer(name);
      const work = () => void done.push(name);
      return consume(guard, { name, operation: "order", work }, { messages: await stream.messages(name) });
    }),
  );
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  await vi.waitFor(async () => {
    const { duplicate } = await stream.js.publish(stream.name, "{}", { msgID: "1" });
    expect(duplicate).toBe(false);
  }, WAIT);
  for (const { kinds } of watched) {
    await vi.waitFor(
      () => expect(kinds.filter((kind) => kind !== "pending")).toEqual(["done", "done-before"]),
      WAIT,
    );
  }
  expect(done.toSorted()).toEqual(["billing", "shipping"]);
});

test("EV-13 a stream that has the id returns duplicate, which is success: one message, the same answer", async (context) => {
  const stream = await openStream(await connectTo(context));
  const first = await publishOnce(stream.js, stream.name, "{}", { id: "1" });
  const again = await publishOnce(stream.js, stream.name, "{}", { id: "1", timeout: 5_000 });
  expect(first).toMatchObject({ stream: stream.name, seq: 1 });
  expect(again).toMatchObject({ stream: stream.name, seq: 1, duplicate: true });
  expect((await stream.manager.streams.info(stream.name)).state.messages).toBe(1);
  // @ts-expect-error It is an option of neither.
  await publishOnce(stream.js, stream.name, "{}", { id: "1", colour: "red" });
  await expect(publishOnce(stream.js, stream.name, "{}", { id: "" })).rejects.toMatchObject({
    code: "key-missing",
  });
});

test("processes at most concurrency messages at once", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  for (let i = 0; i < 20; i++) await stream.js.publish(stream.name, "{}");
  const { work, done, most } = crowdOf(3);
  consume(newGuard(), { work }, { messages: await stream.messages("shop"), concurrency: 3 });
  await vi.waitFor(() => expect(done()).toBe(20), WAIT);
  expect(most()).toBe(3);
});

test("close waits for started messages, and returns the others immediately", async (context) => {
  const connection = await connectTo(context);
  const stream = await openStream(connection);
  await stream.consumer("shop");
  const guard = newGuard();
  for (let i = 0; i < 5; i++) await stream.js.publish(stream.name, "{}", { msgID: String(i) });
  const { promise: held, resolve: release } = deferred();
  const first = consume(
    guard,
    { work: () => held },
    { messages: await stream.messages("shop"), concurrency: 1 },
  );
  await vi.waitFor(async () => expect(await stream.left("shop")).toEqual([5, 0]), WAIT);
  const closed = first.close();
  const done: string[] = [];
  const work = (message: JsMsg) => void done.push(String(messageKey(message)));
  consume(guard, { work }, { messages: await stream.messages("shop") });
  // Long before ack_wait is over.
  await vi.waitFor(() => expect(done.toSorted()).toEqual(["1", "2", "3", "4"]), WAIT);
  release();
  expect(await closed).toEqual({ unfinished: 0 });
  await first.ended;
  expect([first.kinds, first.events]).toEqual([["done"], [{ kind: "ended" }]]);
  await vi.waitFor(async () => expect(await stream.left("shop")).toEqual([0, 0]), WAIT);
});

test("reports ended when the consumer is deleted", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const found = await stream.js.consumers.get(stream.name, "shop");
  const messages = await found.consume({ max_messages: 10, abort_on_missing_resource: true });
  const { ended, events } = consume(newGuard(), { work: () => {} }, { messages });
  await stream.manager.consumers.delete(stream.name, "shop");
  await ended;
  expect(events).toMatchObject([{ kind: "ended", error: expect.anything() }]);
});

test("with confirm waits for the server's confirmation of the acknowledgement", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const consuming = consumer<JsMsg>(newGuard(), { name: "shop", key: messageKey, work: () => {} });
  const handle = natsHandler(consuming, { confirm: true });
  await stream.js.publish(stream.name, "{}", { msgID: "1" });
  const message = await (await stream.js.consumers.get(stream.name, "shop")).next();
  if (message === null) throw new Error("no message came");
  const confirmed = vi.spyOn(message, "ackAck");
  await handle(message);
  expect(await stream.left("shop")).toEqual([0, 0]);
  expect(await confirmed.mock.results[0]?.value).toBe(true);
});

test("bad options are refused, with the fix", async (context) => {
  const stream = await openStream(await connectTo(context));
  await stream.consumer("shop");
  const messages = await stream.messages("shop");
  onTestFinished(() => messages.stop());
  const consuming = consumer<JsMsg>(newGuard(), { name: "shop", key: messageKey, work: () => {} });
  const refused = (options: object) => expect(() => consumeNats(consuming, options as NatsOptions<JsMsg>));
  refused({}).toThrow("await consumer.consume()");
  refused({ messages: [] }).toThrow("await consumer.consume()");
  refused({ messages, concurrency: 0 }).toThrow("concurrency");
  refused({ messages, confirm: "yes" }).toThrow("confirm");
  refused({ messages, colour: "red" }).toThrow("colour");
});
