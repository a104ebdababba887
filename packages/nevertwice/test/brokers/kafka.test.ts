/** Tests messages of librdkafka's mock cluster, consumed with the real kafkajs, processed once and committed in order. */
import { randomUUID } from "node:crypto";
import {
  type Consumer,
  type ConsumerRunConfig,
  Kafka,
  type KafkaMessage,
  logLevel,
  type Message,
  Partitioners,
} from "kafkajs";
import { afterAll, beforeAll, describe, expect, type TestContext, test, vi } from "vitest";
import { type ConsumerEvent, type ConsumerOptions, consumer } from "../../src/events/index.ts";
import {
  headerKey,
  type KafkaDelivery,
  kafkaBatches,
  kafkaMessages,
  offsetKey,
} from "../../src/events/kafka.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/index.ts";
import { startKafkaMock } from "../services/kafka.ts";
import { NotInstalled } from "../services/packages.ts";
import type { Server } from "../services/server.ts";

const WAIT = { timeout: 18_000, interval: 20 };
const until = (check: () => unknown) => vi.waitFor(check, WAIT);

let mock: Server | undefined;
let reason = "";
beforeAll(async () => {
  try {
    mock = await startKafkaMock();
  } catch (error) {
    if (!(error instanceof NotInstalled)) throw error;
    reason = error.message;
  }
});
afterAll(() => mock?.stop());

type Order = KafkaDelivery<KafkaMessage>;
type Handler = Partial<ConsumerOptions<Order, unknown>>;

const idOf = ({ message }: Order) => String(message.headers?.id);

async function scene(context: TestContext) {
  const brokers = [mock?.url ?? context.skip(reason)];
  const kafka = new Kafka({
    brokers,
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 50, maxRetryTime: 100 },
  });
  const topic = `orders-${randomUUID()}`;
  const groupId = `shop-${randomUUID()}`;
  const store = faultyStore(memoryStore());
  const guard = createGuard({ store });
  const ran: string[] = [];
  const events: ConsumerEvent[] = [];
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
  const admin = kafka.admin();
  await Promise.all([producer.connect(), admin.connect()]);
  context.onTestFinished(() => Promise.all([producer.disconnect(), admin.disconnect()]).then(() => {}));

  const handlerOf = (handler: Handler = {}) =>
    consumer<Order>(guard, {
      name: "shop",
      key: headerKey("id"),
      work: (order) => void ran.push(idOf(order)),
      laterMs: 50,
      onEvent: (event) => events.push(event),
      ...handler,
    });

  /** A member of the group, running. */
  async function run(config: ConsumerRunConfig): Promise<Consumer> {
    const member = kafka.consumer({
      groupId,
      maxWaitTimeInMs: 50,
      heartbeatInterval: 100,
      sessionTimeout: 6_000,
    });
    context.onTestFinished(() => member.disconnect());
    await member.connect();
    await member.subscribe({ topic, fromBeginning: true });
    await member.run(config);
    return member;
  }

  return {
    topic,
    store,
    ran,
    events,
    handlerOf,
    run,
    kinds: () => events.map(({ kind }) => kind),
    send: (ids: readonly string[], message: Partial<Message> = {}) =>
      producer.send({
        topic,
        messages: ids.map((id) => ({ value: "7", partition: 0, headers: { id }, ...message })),
      }),
    sendAll: (messages: Message[]) => producer.send({ topic, messages }),
    async committed() {
      const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] });
      return Number(offsets?.partitions.find(({ partition }) => partition === 0)?.offset ?? -1);
    },
  };
}

const WAYS = {
  kafkaMessages: (handle: ReturnType<typeof consumer<Order>>, options = {}) => kafkaMessages(handle, options),
  kafkaBatches: (handle: ReturnType<typeof consumer<Order>>, options = {}) => kafkaBatches(handle, options),
} as const;

// Forming a group takes three seconds, so all groups are formed at the same time.
describe.concurrent("a consumer of Kafka", () => {
  describe.for(["kafkaMessages", "kafkaBatches"] as const)("with %s", (name) => {
    const way = WAYS[name];

    test("processes messages in order, commits them, and processes a message once that was sent twice", async (context) => {
      const { handlerOf, run, send, ran, committed } = await scene(context);
      await send(["a", "b", "a", "c"]);
      await run(way(handlerOf()));
      await until(() => expect(ran).toEqual(["a", "b", "c"]));
      await until(async () => expect(await committed()).toBe(4));
      expect(ran).toEqual(["a", "b", "c"]);
    });

    test("EV-16 a message is not repeated after a consumer died between its effect and the commit of its offset", async (context) => {
      const { handlerOf, run, send, ran, committed, kinds } = await scene(context);
      await send(["a"]);
      const first = await run({ ...way(handlerOf()), autoCommit: false });
      await until(() => expect(kinds()).toEqual(["done"]));
      await first.disconnect();
      expect(await committed()).toBe(-1);
      await run(way(handlerOf()));
      await until(async () => expect(await committed()).toBe(1));
      expect(ran).toEqual(["a"]);
      expect(kinds()).toEqual(["done", "done-before"]);
    });

    test("retries a failed message before the next one, and commits nothing past it", async (context) => {
      const { handlerOf, run, send, ran, committed } = await scene(context);
      await send(["a", "b", "c"]);
      const seen: number[] = [];
      await run(
        way(
          handlerOf({
            work: async (order, { number }) => {
              ran.push(`${idOf(order)} ${number}`);
              if (idOf(order) !== "b" || number > 2) return;
              seen.push(await committed());
              throw new Error("not yet");
            },
          }),
        ),
      );
      await until(() => expect(ran).toEqual(["a 1", "b 1", "b 2", "b 3", "c 1"]));
      await until(async () => expect(await committed()).toBe(3));
      expect(Math.max(...seen)).toBeLessThanOrEqual(1);
    });

    test("passes a rejected message to onRejected before the partition continues", async (context) => {
      const { handlerOf, run, send, ran, committed } = await scene(context);
      const put: string[] = [];
      let refusals = 2;
      const onRejected = async (order: Order, { status, error }: { status: string; error: unknown }) => {
        if (refusals-- > 0) throw new Error("no room");
        put.push(`${idOf(order)} ${status} ${(error as Error).message} after ${ran.join()}`);
      };
      const work = (order: Order) => {
        if (idOf(order) === "b") throw new Error("no such customer");
        ran.push(idOf(order));
      };
      await send(["a", "b", "c"]);
      await run(way(handlerOf({ isPermanent: () => true, work }), { onRejected }));
      await until(() => expect(ran).toEqual(["a", "c"]));
      expect(put).toEqual(["b failed no such customer after a"]);
      await until(async () => expect(await committed()).toBe(3));
    });

    test("stops the consumer at a rejected message without onRejected, and does not commit it", async (context) => {
      const { handlerOf, run, send, ran, committed } = await scene(context);
      await send(["a", "b"]);
      await send(["c"], { headers: {} });
      await send(["d"]);
      const member = await run({ ...way(handlerOf()) });
      const crashed = vi.fn();
      member.on(member.events.CRASH, ({ payload }) => crashed(payload.restart, payload.error.message));
      await until(() => expect(crashed).toHaveBeenCalled());
      expect(crashed.mock.calls).toEqual([[false, expect.stringContaining("offset 2")]]);
      expect(crashed.mock.calls[0]?.[1]).toContain("key-missing");
      expect(ran).toEqual(["a", "b"]);
      expect(await committed()).toBe(2);
    });

    test("keeps messages waiting while the store is down, and processes all once it is back", async (context) => {
      const { handlerOf, run, send, ran, store, events, committed } = await scene(context);
      store.setRates({ refuse: 1 });
      await send(["a", "b"]);
      await run(way(handlerOf({ storeTimeoutMs: 20 })));
      await until(() => expect(events.length).toBeGreaterThan(2));
      expect(await committed()).toBeLessThanOrEqual(0);
      store.setRates({});
      await until(() => expect(ran).toEqual(["a", "b"]));
      await until(async () => expect(await committed()).toBe(2));
    });

    test("stays in the group during long work: each renewal is a heartbeat", async (context) => {
      const { handlerOf, run, send, ran } = await scene(context);
      await send(["a"]);
      let beats = 0;
      const config = way(
        handlerOf({
          leaseMs: 300,
          work: async (order) => {
            beats = 0;
            await until(() => expect(beats).toBeGreaterThan(2));
            ran.push(idOf(order));
          },
        }),
      );
      const member = await run(config);
      member.on(member.events.HEARTBEAT, () => {
        beats++;
      });
      await until(() => expect(ran).toEqual(["a"]));
    });
  });

  describe("a paused partition", () => {
    test("does not delay other partitions", async (context) => {
      const { handlerOf, run, send, ran, kinds } = await scene(context);
      await send(["stuck"], { partition: 0 });
      const work = (order: Order) => {
        if (idOf(order) === "stuck") throw new Error("never");
        ran.push(idOf(order));
      };
      const member = await run(kafkaBatches(handlerOf({ work, laterMs: 60_000 })));
      const crashed = vi.fn();
      member.on(member.events.CRASH, crashed);
      await until(() => expect(kinds()).toEqual(["failed"]));
      await send(["a", "b"], { partition: 1 });
      await until(() => expect(ran).toEqual(["a", "b"]));
      expect(member.paused()).toEqual([{ topic: expect.any(String), partitions: [0] }]);
      expect(crashed).not.toHaveBeenCalled();
    });
  });

  describe("a batch that is interrupted", () => {
    test("by a stop is committed up to the last message that is done", async (context) => {
      const { handlerOf, run, send, ran, committed } = await scene(context);
      await send(["a", "b", "c", "d"]);
      let stopped: Promise<void> | undefined;
      const work = (order: Order) => {
        ran.push(idOf(order));
        if (idOf(order) === "b") stopped = member.then((each) => each.stop());
      };
      const member = run(kafkaBatches(handlerOf({ work })));
      await until(() => expect(stopped).toBeDefined());
      await stopped;
      expect(ran).toEqual(["a", "b"]);
      expect(await committed()).toBe(2);
      await run(kafkaBatches(handlerOf({ work })));
      await until(() => expect(ran).toEqual(["a", "b", "c", "d"]));
    });

    test("by a seek continues at the new offset", async (context) => {
      const { topic, handlerOf, run, send, ran, kinds, committed } = await scene(context);
      await send(["a", "b", "c"]);
      let moves = 0;
      const work = async (order: Order) => {
        ran.push(idOf(order));
        if (idOf(order) === "b" && moves++ === 0) (await member).seek({ topic, partition: 0, offset: "0" });
      };
      const member = run(kafkaBatches(handlerOf({ work })));
      await until(() => expect(ran).toEqual(["a", "b", "c"]));
      await until(async () => expect(await committed()).toBe(3));
      expect(kinds()).toEqual(["done", "done", "done-before", "done-before", "done"]);
    });
  });

  describe("several messages of a batch at once", () => {
    test("are processed in order if their Kafka keys are equal, and committed up to the first that is not done", async (context) => {
      const { handlerOf, run, sendAll, ran, committed } = await scene(context);
      let isStuck = true;
      const ordered = (key: string | null, id: string): Message => ({
        key,
        value: "7",
        partition: 0,
        headers: { id },
      });
      await sendAll([
        ordered("x", "x1"),
        ordered("y", "y1"),
        ordered("x", "x2"),
        ordered(null, "n1"),
        ordered("y", "y2"),
        ordered("x", "x3"),
      ]);
      const work = async (order: Order) => {
        // The first messages take longest.
        await new Promise((resolve) => setTimeout(resolve, 40 - 5 * Number(order.message.offset)));
        if (isStuck && idOf(order) === "x2") throw new Error("not yet");
        ran.push(idOf(order));
      };
      await run(kafkaBatches(handlerOf({ work }), { concurrency: 4 }));
      await until(() => expect([...ran].sort()).toEqual(["n1", "x1", "y1", "y2"]));
      await until(async () => expect(await committed()).toBe(2));
      expect(ran.indexOf("y1")).toBeLessThan(ran.indexOf("y2"));
      isStuck = false;
      await until(async () => expect(await committed()).toBe(6));
      expect(ran.slice(4)).toEqual(["x2", "x3"]);
    });
  });

  describe("a message's key", () => {
    const at = (headers: KafkaDelivery["message"]["headers"], offset = "9") => ({
      topic: "orders",
      partition: 3,
      message: { key: null, offset, headers },
    });

    test("is a header, as text or bytes, unless it is missing, invalid UTF-8, or has two values", () => {
      const key = headerKey("id");
      expect(key(at({ id: Buffer.from("17") }))).toBe("17");
      expect(key(at({ id: ["17", Buffer.from("17")] }))).toBe("17");
      expect(key(at({ id: ["17", "18"] }))).toBeUndefined();
      expect(key(at({}))).toBeUndefined();
      expect(headerKey("constructor")(at({}))).toBeUndefined();
      expect(key(at(undefined))).toBeUndefined();
      expect(() => key(at({ id: Buffer.from([0xff]) }))).toThrow();
    });

    test("EV-17 may be its place: the same after a rebalance, another one when it is published again", async (context) => {
      expect(String(offsetKey(at({})))).toBe("orders|#3|9");
      const { handlerOf, run, send, ran, committed, kinds } = await scene(context);
      await send(["a"]);
      const first = await run({ ...kafkaBatches(handlerOf({ key: offsetKey })), autoCommit: false });
      await until(() => expect(kinds()).toEqual(["done"]));
      await first.disconnect();
      await run(kafkaBatches(handlerOf({ key: offsetKey })));
      await until(async () => expect(await committed()).toBe(1));
      expect(ran).toEqual(["a"]);
      await send(["a"]);
      await until(() => expect(ran).toEqual(["a", "a"]));
    });
  });
});

test("bad options are refused", () => {
  const handle = consumer<Order>(createGuard({ store: memoryStore() }), {
    name: "shop",
    key: offsetKey,
    work: () => {},
  });
  expect(() => kafkaBatches(handle, { concurrency: 0 })).toThrow("options-invalid");
  expect(() => kafkaMessages(handle, { concurrency: 2 } as never)).toThrow("options-invalid");
  expect(() => kafkaMessages(handle, { onRejected: "dead" as never })).toThrow("options-invalid");
});
