/** Batches from Lambda: which records are done, and which must come again. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type ConsumerOptions, consumer } from "../../src/events/index.ts";
import {
  type LambdaDynamodbRecord,
  type LambdaKafkaRecord,
  type LambdaKinesisRecord,
  type LambdaRecord,
  type LambdaSqsRecord,
  lambdaBatch,
  recordKey,
  sentKey,
} from "../../src/events/lambda-batch.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";

const ARN = "arn:aws:sqs:eu-west-1:123456789012:orders";

function sqs(id: string, group?: string, body = id): LambdaSqsRecord {
  return {
    messageId: id,
    body,
    eventSource: "aws:sqs",
    eventSourceARN: group === undefined ? ARN : `${ARN}.fifo`,
    attributes: group === undefined ? {} : { MessageGroupId: group, MessageDeduplicationId: `sent ${id}` },
    messageAttributes: {},
  };
}

function kinesis(sequenceNumber: string): LambdaKinesisRecord {
  return {
    eventID: `shardId-000000000000:${sequenceNumber}`,
    eventSource: "aws:kinesis",
    kinesis: { sequenceNumber, partitionKey: "p", data: btoa(sequenceNumber) },
  };
}

function dynamodb(SequenceNumber: string): LambdaDynamodbRecord {
  return {
    eventID: `event ${SequenceNumber}`,
    eventName: "MODIFY",
    eventSource: "aws:dynamodb",
    dynamodb: { SequenceNumber, Keys: { id: { S: "1" } } },
  };
}

function kafka(partition: number, offset: number): LambdaKafkaRecord {
  return { topic: "orders", partition, offset, value: btoa(String(offset)) };
}

function guardOf(options: Partial<Parameters<typeof createGuard>[0]> = {}): Guard {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, drainMs: 0, ...options });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

/** A record in `failing` fails until it is removed from there. */
function scene<Message extends LambdaRecord>(
  nameOf: (record: Message) => string,
  more: Partial<ConsumerOptions<Message, string>> = {},
) {
  const failing = new Set<string>();
  const work = vi.fn(async (record: Message) => {
    if (failing.has(nameOf(record))) throw new Error("out of stock");
    return nameOf(record);
  });
  const consume = consumer<Message, string>(guardOf(), { name: "shop", key: recordKey, work, ...more });
  const worked = () => work.mock.calls.map(([record]) => nameOf(record));
  return { failing, consume, worked, work };
}

const named = ({ messageId }: LambdaSqsRecord) => messageId;

describe("a batch of a queue", () => {
  test("reports only the failed records, and processes only those when they come again", async () => {
    const { failing, consume, worked } = scene(named);
    failing.add("2");
    const handler = lambdaBatch(consume);
    const Records = ["1", "2", "3"].map((id) => sqs(id));
    expect(await handler({ Records })).toEqual({ batchItemFailures: [{ itemIdentifier: "2" }] });
    failing.clear();
    expect(await handler({ Records })).toEqual({ batchItemFailures: [] });
    expect(worked()).toEqual(["1", "2", "3", "2"]);
  });

  test("processes a message once that is in it twice, and acknowledges both", async () => {
    const { consume, worked } = scene(named, { key: ({ body }) => body });
    const Records = [sqs("1", undefined, "order 7"), sqs("2", undefined, "order 7")];
    expect(await lambdaBatch(consume)({ Records })).toEqual({ batchItemFailures: [] });
    expect(worked()).toEqual(["1"]);
  });

  test("that is empty reports no failures", async () => {
    const { consume } = scene(named);
    expect(await lambdaBatch(consume)({ Records: [] })).toEqual({ batchItemFailures: [] });
  });

  test("processes at most concurrency messages at once", async () => {
    let [now, most] = [0, 0];
    const consume = consumer<LambdaSqsRecord>(guardOf(), {
      name: "shop",
      key: recordKey,
      async work() {
        most = Math.max(most, ++now);
        await new Promise(setImmediate);
        now--;
      },
    });
    const Records = Array.from({ length: 9 }, (_, index) => sqs(String(index)));
    await lambdaBatch(consume, { concurrency: 3 })({ Records });
    expect(most).toBe(3);
  });

  test("reports every message while the store does not answer, and loses none", async () => {
    const store = faultyStore(memoryStore());
    const work = vi.fn(async () => "done");
    const options = { name: "shop", key: recordKey, work, storeTimeoutMs: 20 };
    const handler = lambdaBatch(consumer<LambdaSqsRecord>(guardOf({ store }), options));
    store.setRates({ refuse: 1 });
    const Records = [sqs("1"), sqs("2")];
    const failures = [{ itemIdentifier: "1" }, { itemIdentifier: "2" }];
    expect(await handler({ Records })).toEqual({ batchItemFailures: failures });
    expect(work).not.toHaveBeenCalled();
    store.setRates({});
    expect(await handler({ Records })).toEqual({ batchItemFailures: [] });
    expect(work).toHaveBeenCalledTimes(2);
  });
});

describe("records that must stay in order", () => {
  test("a group of a FIFO queue stops at its first failure, and the other groups continue", async () => {
    const { failing, consume, worked } = scene(named);
    failing.add("a2");
    const handler = lambdaBatch(consume);
    const Records = [sqs("a1", "a"), sqs("b1", "b"), sqs("a2", "a"), sqs("a3", "a"), sqs("b2", "b")];
    const failures = [{ itemIdentifier: "a2" }, { itemIdentifier: "a3" }];
    expect(await handler({ Records })).toEqual({ batchItemFailures: failures });
    expect(worked()).toEqual(["a1", "b1", "a2", "b2"]);
  });

  test.each([
    ["Kinesis", kinesis, (record: LambdaRecord) => (record as LambdaKinesisRecord).kinesis.sequenceNumber],
    [
      "DynamoDB",
      dynamodb,
      (record: LambdaRecord) => String((record as LambdaDynamodbRecord).dynamodb?.SequenceNumber),
    ],
  ])("a stream of %s stops at its first failure, and comes again from there", async (_, make, nameOf) => {
    const { failing, consume, worked } = scene<LambdaRecord>(nameOf);
    failing.add("102");
    const Records = ["101", "102", "103"].map((number): LambdaRecord => make(number));
    const handler = lambdaBatch(consume);
    expect(await handler({ Records })).toEqual({ batchItemFailures: [{ itemIdentifier: "102" }] });
    expect(worked()).toEqual(["101", "102"]);
    failing.clear();
    expect(await handler({ Records: Records.slice(1) })).toEqual({ batchItemFailures: [] });
    expect(worked()).toEqual(["101", "102", "102", "103"]);
  });

  test("a Kafka partition stops at its first failure, and reports it as partition and offset", async () => {
    const { failing, consume, worked } = scene<LambdaKafkaRecord>(
      ({ partition, offset }) => `${partition}:${offset}`,
    );
    failing.add("0:11");
    const records = {
      "orders-0": [kafka(0, 10), kafka(0, 11), kafka(0, 12)],
      "orders-1": [kafka(1, 10), kafka(1, 11)],
    };
    const itemIdentifier = { partition: "orders-0", offset: 11 };
    expect(await lambdaBatch(consume)({ records })).toEqual({ batchItemFailures: [{ itemIdentifier }] });
    expect(worked()).toEqual(["0:10", "1:10", "0:11", "1:11"]);
  });
});

describe("a rejected record", () => {
  const hopeless = { isPermanent: () => true };

  test("is reported, so that Lambda moves it to the dead-letter queue", async () => {
    const { failing, consume } = scene(named, hopeless);
    failing.add("1");
    const answer = await lambdaBatch(consume)({ Records: [sqs("1"), sqs("2")] });
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "1" }] });
  });

  test("counts as done once onRejected resolves, and not before", async () => {
    const { failing, consume } = scene(named, hopeless);
    failing.add("1").add("2");
    const onRejected = vi.fn(async ({ messageId }: LambdaSqsRecord) => {
      if (messageId === "2") throw new Error("the dead-letter queue is down");
    });
    const answer = await lambdaBatch(consume, { onRejected })({
      Records: ["1", "2", "3"].map((id) => sqs(id)),
    });
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "2" }] });
    expect(onRejected.mock.calls.map(([record]) => record.messageId)).toEqual(["1", "2"]);
  });

  test("without a key is never processed and never dropped", async () => {
    const { consume, worked } = scene(named, { key: sentKey });
    const answer = await lambdaBatch(consume)({ Records: [sqs("1")] });
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "1" }] });
    expect(worked()).toEqual([]);
  });
});

describe("the remaining time", () => {
  test("limits every lease, so that a killed function holds no key for longer", async () => {
    const store = memoryStore();
    const claim = vi.spyOn(store, "claim");
    const options = { name: "shop", key: recordKey, work: () => "done" };
    const handler = lambdaBatch(consumer<LambdaSqsRecord>(guardOf({ store }), options));
    for (const [index, leftMs] of [4_000, 1_200, 900_000].entries())
      await handler({ Records: [sqs(String(index))] }, { getRemainingTimeInMillis: () => leftMs });
    await handler({ Records: [sqs("no context")] });
    expect(claim.mock.calls.map(([{ leaseMs }]) => leaseMs)).toEqual([4_000, 1_200, 30_000, 30_000]);
  });

  test("ends the batch early, and reports records that were not started", async () => {
    const { consume, worked } = scene(named);
    const left = [5_000, 1_500, 900];
    const handler = lambdaBatch(consume);
    const Records = ["1", "2", "3"].map((id) => sqs(id, "a"));
    const answer = await handler({ Records }, { getRemainingTimeInMillis: () => left.shift() ?? 0 });
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: "3" }] });
    expect(worked()).toEqual(["1", "2"]);
  });
});

describe("keys", () => {
  test("are the sender's id if there is one, otherwise the record's id", () => {
    expect(recordKey(sqs("m-1"))).toBe("m-1");
    expect(recordKey(sqs("m-1", "a"))).toBe("sent m-1");
    expect(recordKey(kinesis("101"))).toBe("shardId-000000000000:101");
    expect(recordKey(dynamodb("101"))).toBe("event 101");
    expect(String(recordKey(kafka(2, 17)))).toBe("orders|#2|#17");
    const sent = { ...sqs("m-1"), messageAttributes: { "idempotency-key": { stringValue: "order 7" } } };
    expect(sentKey(sent)).toBe("order 7");
  });
});

describe("refused", () => {
  const strangers = [
    undefined,
    null,
    "text",
    {},
    { Records: "no list" },
    { Records: [null] },
    { detail: {} },
    { Records: [{ s3: {} }] },
    { Records: [{ Sns: { MessageId: "1" } }] },
    { records: { "orders-0": [{ value: "" }] } },
  ];
  test.each(strangers.map((event) => [JSON.stringify(event) ?? "nothing", event]))(
    "an event that is not a batch: %s",
    async (_, event) => {
      const { consume, work } = scene(named);
      await expect(lambdaBatch(consume)(event as never)).rejects.toMatchObject({
        code: "options-invalid",
        message: expect.stringContaining("check what triggers the function"),
      });
      expect(work).not.toHaveBeenCalled();
    },
  );

  test("invalid and unknown options", () => {
    const { consume } = scene(named);
    for (const options of [{ concurrency: 0 }, { reserveMs: -1 }, { onRejected: "queue" }, { batch: 10 }])
      expect(() => lambdaBatch(consume, options as never)).toThrow("options-invalid");
  });

  test("a retention that is shorter than the queue's", () => {
    const options = {
      name: "shop",
      key: recordKey,
      work: () => {},
      sender: "sqs",
      retentionMs: 86_400_000,
    } as const;
    expect(() => consumer<LambdaSqsRecord>(guardOf(), options)).toThrow(/sqs may send a message again/);
    expect(() => consumer<LambdaSqsRecord>(guardOf(), { ...options, retentionMs: undefined })).not.toThrow();
  });
});
