/** Tests SQS with fauxqs: a message for each verdict, the order of messages, and messages that are sent twice. */
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { consumer } from "../../src/events/index.ts";
import {
  attribute,
  consumeSqs,
  deduplicationId,
  messageId,
  type SqsClient,
  type SqsMessage,
  sendOnce,
  sentKey,
} from "../../src/events/sqs.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { deferred } from "../deferred.ts";
import { crowdOf } from "./crowd.ts";
import { advance, createScene } from "./sqs/scene.ts";

/** Work that runs until the test ends it. */
function held() {
  const { promise: end, resolve: finish } = deferred<string>();
  return { work: vi.fn(() => end), finish };
}

/** The machine may be slow. */
const eventually = (check: () => unknown) => vi.waitFor(check, 15_000);

const EMPTY = { waiting: 0, hidden: 0 };
const bodies = (work: { mock: { calls: [SqsMessage, ...unknown[]][] } }) =>
  work.mock.calls.map(([{ Body }]) => Body);

describe("a message", () => {
  test("is processed once and deleted, however often it is sent under one key", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    const work = vi.fn(async ({ Body }: SqsMessage) => Body);
    for (const [key, MessageBody] of [
      ["1", "a"],
      ["1", "a"],
      ["2", "b"],
      ["1", "a"],
    ] as const)
      await sendOnce(client, key, { QueueUrl: queueUrl, MessageBody });
    // One at a time: a second copy never finds the first one pending.
    consume({ work }, { queueUrl, concurrency: 1 });
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(bodies(work)).toEqual(["a", "b"]);
  });

  test("that fails is hidden for afterMs, and then comes again", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    const work = vi.fn().mockRejectedValueOnce(new Error("busy")).mockResolvedValue("done");
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "a" });
    const visibility = vi.spyOn(client, "changeMessageVisibility");
    consume({ work, laterMs: 7_000 }, { queueUrl });
    await eventually(() => expect(visibility.mock.calls[0]?.[0].VisibilityTimeout).toBe(7));
    await eventually(() => expect(visibility.mock.settledResults[0]?.type).toBe("fulfilled"));
    expect(count(queueUrl)).toEqual({ waiting: 0, hidden: 1 });
    advance(7_000);
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(work).toHaveBeenCalledTimes(2);
  });

  test("that is rejected is moved unchanged to the dead-letter queue", async () => {
    const { client, queue, consume, count } = await createScene();
    const [queueUrl, deadLetterQueueUrl] = [queue(), queue()];
    const MessageAttributes = { kind: { DataType: "String", StringValue: "order" } };
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "bad", MessageAttributes });
    const work = vi.fn().mockRejectedValue(new RangeError("no such item"));
    consume({ work, isPermanent: () => true }, { queueUrl, deadLetterQueueUrl });
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    const names = { MessageAttributeNames: ["All"] };
    const { Messages = [] } = await client.receiveMessage({ QueueUrl: deadLetterQueueUrl, ...names });
    const [dead] = Messages as [SqsMessage];
    expect([dead.Body, attribute(dead, "kind"), sentKey(dead)]).toEqual(["bad", "order", "1"]);
  });

  test("is not lost if the dead-letter queue is missing", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    await client.sendMessage({ QueueUrl: queueUrl, MessageBody: "keyless" });
    const onError = vi.fn();
    const work = vi.fn();
    consume({ work }, { queueUrl, deadLetterQueueUrl: `${queueUrl}-gone`, onError });
    await eventually(() => expect(onError).toHaveBeenCalled());
    expect(onError.mock.calls[0]?.[1]).toMatchObject({ during: "dead-letter", message: { Body: "keyless" } });
    expect(count(queueUrl)).toEqual({ waiting: 0, hidden: 1 });
    expect(work).not.toHaveBeenCalled();
  });

  test("that is rejected is left to the redrive policy without deadLetterQueueUrl", async () => {
    const { client, server, queue, consume, count } = await createScene();
    const dead = queue();
    const deadLetterTargetArn = server.inspectQueue(dead.split("/").at(-1) ?? "")?.arn;
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 2 });
    const queueUrl = queue({ attributes: { RedrivePolicy } });
    await client.sendMessage({ QueueUrl: queueUrl, MessageBody: "keyless" });
    const receive = vi.spyOn(client, "receiveMessage");
    const onEvent = vi.fn();
    consume({ work: () => {}, onEvent, leaseMs: 10_000 }, { queueUrl, visibilityMs: 5_000 });
    for (const times of [1, 2]) {
      await eventually(() => expect(onEvent).toHaveBeenCalledTimes(times));
      expect(onEvent).toHaveBeenLastCalledWith(
        expect.objectContaining({ kind: "refused", verdict: "reject" }),
      );
      advance(5_000);
    }
    await eventually(() => expect(count(dead)).toEqual({ waiting: 1, hidden: 0 }));
    expect(receive.mock.calls.length).toBeLessThan(10);
  });

  test("stays hidden while its claim is renewed", async () => {
    const { client, server, queue, consume, count } = await createScene();
    const queueUrl = queue();
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "slow" });
    const hiddenUntil = () =>
      server.inspectQueue(queueUrl.split("/").at(-1) ?? "")?.messages.inflight[0]?.visibilityDeadline ?? 0;
    const { work, finish } = held();
    consume({ work, leaseMs: 150 }, { queueUrl, visibilityMs: 10_000 });
    await eventually(() => expect(work).toHaveBeenCalled());
    for (const _ of [1, 2, 3]) {
      advance(9_000);
      await eventually(() => expect(hiddenUntil()).toBeGreaterThan(Date.now() + 9_000));
    }
    finish("done");
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(work).toHaveBeenCalledTimes(1);
  });

  test("whose deletion fails comes again, is found done, and is deleted then", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "a" });
    vi.spyOn(client, "deleteMessageBatch").mockImplementationOnce(() => Promise.reject(new Error("reset")));
    const [work, onError] = [vi.fn(async () => "done"), vi.fn()];
    consume({ work, leaseMs: 10_000 }, { queueUrl, visibilityMs: 5_000, onError });
    await eventually(() => expect(onError).toHaveBeenCalledWith(expect.any(Error), { during: "delete" }));
    advance(5_000);
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(work).toHaveBeenCalledTimes(1);
  });
});

describe("the loop", () => {
  test("processes at most concurrency messages, and deletes in batches", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    const Entries = Array.from({ length: 10 }, (_, index) => ({ Id: `${index}`, MessageBody: `${index}` }));
    for (const _ of [1, 2]) await client.sendMessageBatch({ QueueUrl: queueUrl, Entries });
    const deletes = vi.spyOn(client, "deleteMessageBatch");
    const { work, most } = crowdOf(4);
    consume({ key: messageId, work }, { queueUrl, concurrency: 4 });
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(most()).toBe(4);
    expect(deletes.mock.calls.length).toBeLessThan(20);
  });

  test("survives an unreachable queue, and reports it", async () => {
    const { server, client, queue, consume, count } = await createScene();
    const queueUrl = `${queue()}-late`;
    const [work, onError] = [vi.fn(async () => "done"), vi.fn()];
    consume({ work, key: messageId }, { queueUrl, onError });
    await eventually(() => expect(onError).toHaveBeenCalledWith(expect.any(Error), { during: "receive" }));
    server.createQueue(queueUrl.split("/").at(-1) ?? "");
    await client.sendMessage({ QueueUrl: queueUrl, MessageBody: "a" });
    await eventually(() => expect(work).toHaveBeenCalled());
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
  });

  test("closes when started messages have ended and are deleted, and takes no further messages", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue();
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "a" });
    const { work, finish } = held();
    const consumption = consume({ work }, { queueUrl, concurrency: 1 });
    await eventually(() => expect(work).toHaveBeenCalled());
    const closed = vi.fn();
    const closing = consumption.close().then(closed);
    await sendOnce(client, "2", { QueueUrl: queueUrl, MessageBody: "b" });
    expect(closed).not.toHaveBeenCalled();
    finish("done");
    await closing;
    expect(count(queueUrl)).toEqual({ waiting: 1, hidden: 0 });
    expect(work).toHaveBeenCalledTimes(1);
  });

  test("waits at most drainMs for started messages, and returns how many are unfinished", async () => {
    const { client, queue, consume } = await createScene();
    const queueUrl = queue();
    await sendOnce(client, "1", { QueueUrl: queueUrl, MessageBody: "a" });
    const { work, finish } = held();
    const consumption = consume({ work }, { queueUrl });
    await eventually(() => expect(work).toHaveBeenCalled());
    expect(await consumption.close({ drainMs: 10 })).toEqual({ unfinished: 1 });
    finish("done");
    expect(await consumption.close()).toEqual({ unfinished: 0 });
  });

  test("refuses an unsuitable client and bad options", async () => {
    const { client, queue, guard } = await createScene();
    const queueUrl = queue();
    const consume = consumer<SqsMessage>(guard, { name: "shop", key: sentKey, work: () => {} });
    const wrong = [
      {},
      { client },
      { client: { send() {} }, queueUrl },
      { client, queueUrl: "" },
      { client, queueUrl, waitMs: 20_001 },
      { client, queueUrl, visibilityMs: 999 },
      { client, queueUrl, concurrency: 0 },
      { client, queueUrl, batchSize: 10 },
    ];
    for (const options of wrong)
      expect(() => consumeSqs(consume, options as never)).toThrow("options-invalid");
  });
});

test("a visibility timeout that ends before the next renewal is refused", async () => {
  const { client, queue, guard } = await createScene();
  const queueUrl = queue();
  const plain = { name: "shop", key: sentKey, leaseMs: 120_000, work: () => {} };
  expect(() =>
    consumeSqs(consumer<SqsMessage>(guard, plain), { client, queueUrl, visibilityMs: 59_999 }),
  ).toThrow(
    "options-invalid: visibilityMs is 59999, but a running message is hidden anew only every 60000 ms",
  );
  const consumption = consumeSqs(consumer<SqsMessage>(guard, plain), {
    client,
    queueUrl,
    visibilityMs: 60_000,
  });
  await consumption.close();

  // The claim of a transaction is never renewed.
  const database = new DatabaseSync(":memory:");
  const store = sqliteStore({ database });
  const inTransaction = consumer<SqsMessage, unknown, typeof database>(
    createGuard({ store, purgeEveryMs: 0 }),
    {
      ...plain,
      transaction: database,
      transactionMs: 90_000,
    },
  );
  expect(() => consumeSqs(inTransaction, { client, queueUrl, visibilityMs: 89_999 })).toThrow("90000 ms");
  database.close();
});

describe("a FIFO queue", () => {
  test("keeps the order of a group over failures, and other groups do not wait", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue({ fifo: true });
    for (const body of ["a1", "a2", "b1", "a3", "b2"])
      await sendOnce(client, body, {
        QueueUrl: queueUrl,
        MessageBody: body,
        MessageGroupId: body[0] as string,
      });
    let failures = 0;
    const work = vi.fn(async ({ Body }: SqsMessage) => {
      if (Body === "a2" && failures++ === 0) throw new Error("busy");
    });
    consume({ work }, { queueUrl });
    await eventually(() => expect([...bodies(work)].sort()).toEqual(["a1", "a2", "b1", "b2"]));
    advance(1_000);
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    expect(bodies(work).filter((body) => body?.startsWith("a"))).toEqual(["a1", "a2", "a2", "a3"]);
  });

  test("returns the messages behind a failure to the queue, the last one first", async () => {
    // fauxqs delivers one message of a group at a time; SQS delivers as many as there are.
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    onTestFinished(async () => void (await guard.close()));
    const message = (Body: string): SqsMessage => ({
      MessageId: Body,
      ReceiptHandle: `receipt ${Body}`,
      Body,
      Attributes: { MessageGroupId: "a" },
    });
    const calls: string[] = [];
    const batches = [["a1", "a2", "a3", "a4"].map(message)];
    const client: SqsClient = {
      async receiveMessage(_, { abortSignal }) {
        const Messages = batches.shift();
        if (Messages === undefined)
          await new Promise((resolve) => abortSignal.addEventListener("abort", resolve));
        return { Messages };
      },
      async deleteMessageBatch({ Entries }) {
        for (const { ReceiptHandle } of Entries) calls.push(`delete ${ReceiptHandle}`);
        return {};
      },
      async changeMessageVisibility({ ReceiptHandle, VisibilityTimeout }) {
        calls.push(`${ReceiptHandle} for ${VisibilityTimeout}`);
      },
      sendMessage: () => Promise.reject(new Error("nothing is sent")),
    };
    const work = async ({ Body }: SqsMessage) => {
      if (Body === "a2") throw new Error("busy");
    };
    const consume = consumer(guard, { name: "shop", key: messageId, work, laterMs: 30_000 });
    const consumption = consumeSqs(consume, { client, queueUrl: "https://sqs/orders.fifo" });
    await eventually(() => expect(calls).toHaveLength(4));
    expect(calls).toEqual(["delete receipt a1", "receipt a2 for 30", "receipt a4 for 0", "receipt a3 for 0"]);
    await consumption.close();
  });

  test("moves a rejected message to the dead-letter queue and continues with its group", async () => {
    const { client, queue, consume, count } = await createScene();
    const [queueUrl, deadLetterQueueUrl] = [queue({ fifo: true }), queue({ fifo: true })];
    for (const body of ["bad", "good"])
      await sendOnce(client, body, { QueueUrl: queueUrl, MessageBody: body, MessageGroupId: "a" });
    const work = vi.fn(async ({ Body }: SqsMessage) => {
      if (Body === "bad") throw new RangeError("no such item");
    });
    consume({ work, isPermanent: (error) => error instanceof RangeError }, { queueUrl, deadLetterQueueUrl });
    await eventually(() => expect(bodies(work)).toEqual(["bad", "good"]));
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    const { Messages } = await client.receiveMessage({ QueueUrl: deadLetterQueueUrl });
    expect(Messages?.map(({ Body }) => Body)).toEqual(["bad"]);
  });
});

describe("sending", () => {
  test("EV-11 SQS FIFO: a duplicate send is one delivery within five minutes, two after that, and one execution in total", async () => {
    const { client, queue, consume, count } = await createScene();
    const queueUrl = queue({ fifo: true });
    const message = { QueueUrl: queueUrl, MessageBody: "order 7 paid", MessageGroupId: "orders" };
    const onEvent = vi.fn();
    const work = vi.fn(async () => "shipped");
    consume({ work, onEvent: ({ kind }) => void onEvent(kind) }, { queueUrl });
    const first = await sendOnce(client, "order 7", message);
    const again = await sendOnce(client, "order 7", message);
    expect(again.MessageId).toBe(first.MessageId);
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    await eventually(() => expect(onEvent.mock.calls).toEqual([["done"]]));
    advance(5 * 60_000 + 1);
    await sendOnce(client, "order 7", message);
    await eventually(() => expect(onEvent.mock.calls).toEqual([["done"], ["done-before"]]));
    expect(work).toHaveBeenCalledTimes(1);
  });

  test("EV-12 SQS content mode: the same body with other attributes is a duplicate, unless it is sent under keys", async () => {
    const { client, queue, count } = await createScene();
    const queueUrl = queue({ fifo: true, attributes: { ContentBasedDeduplication: "true" } });
    const message = { QueueUrl: queueUrl, MessageBody: "ping", MessageGroupId: "a" };
    const attributed = (StringValue: string) => ({
      ...message,
      MessageAttributes: { try: { DataType: "String", StringValue } },
    });
    await client.sendMessage(attributed("first"));
    await client.sendMessage(attributed("second"));
    expect(count(queueUrl).waiting).toBe(1);
    for (const key of ["1", "2", "2"]) await sendOnce(client, key, message);
    expect(count(queueUrl).waiting).toBe(3);
  });

  test("EV-20 a producer that crashed after publishing publishes again under the same id, and it is one event", async () => {
    const { client, queue, guard, clock, consume, count } = await createScene();
    const queueUrl = queue({ fifo: true });
    const ids: (string | undefined)[] = [];
    const keyOf = (message: SqsMessage) => {
      ids.push(deduplicationId(message));
      return sentKey(message);
    };
    const order = { operation: "ship", key: "order 7" };
    const publish = (deriveKey: (name: string) => string) =>
      sendOnce(client, deriveKey("shipped"), {
        QueueUrl: queueUrl,
        MessageBody: "order 7 shipped",
        MessageGroupId: "orders",
      });
    const crashed = new Promise<void>((resolve) => {
      void guard.tryRun(order, async ({ deriveKey }) => {
        await publish(deriveKey);
        resolve();
        return new Promise<never>(() => {});
      });
    });
    await crashed;
    clock.advance(guard.policy.leaseMs);
    // By then the queue's deduplication window is over: only the consumer still knows the key.
    advance(5 * 60_000 + 1);
    await guard.run(order, ({ number, deriveKey }) => {
      expect(number).toBe(2);
      return publish(deriveKey);
    });
    const work = vi.fn(async () => "seen");
    consume({ work, key: keyOf }, { queueUrl, concurrency: 1 });
    await eventually(() => expect(count(queueUrl)).toEqual(EMPTY));
    await eventually(() => expect(ids).toHaveLength(2));
    expect(new Set(ids).size).toBe(1);
    expect(work).toHaveBeenCalledTimes(1);
  });

  test("accepts keys that SQS does not allow, and refuses an empty one", async () => {
    const { client, queue, count } = await createScene();
    const queueUrl = queue({ fifo: true });
    const message = { QueueUrl: queueUrl, MessageBody: "a", MessageGroupId: "a" };
    const long = "Bestellung für Müller ".repeat(20);
    for (const key of [long, long, `${long}!`]) await sendOnce(client, key, message);
    expect(count(queueUrl).waiting).toBe(2);
    await expect(sendOnce(client, "", message)).rejects.toMatchObject({ code: "key-missing" });
  });
});
