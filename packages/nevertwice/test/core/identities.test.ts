/**
 * Tests every place where a value becomes part of an identity with pairs of different values that look alike. The two
 * values must get different identities or be refused. They must never share one.
 */
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { toFingerprint } from "../../src/core/fingerprint.ts";
import { deriveKey, toIdentity } from "../../src/core/identity.ts";
import { actionKey, compositeKey, eventKey, operationKey } from "../../src/core/key.ts";
import { idempotentMessages, type MessageHandler } from "../../src/events/a2a.ts";
import { jobKey } from "../../src/events/bullmq.ts";
import { cloudEvents } from "../../src/events/cloudevents.ts";
import { consumer } from "../../src/events/consumer.ts";
import { offsetKey } from "../../src/events/kafka.ts";
import { type LambdaRecord, recordKey } from "../../src/events/lambda-batch.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { messageKey, type NatsMessage } from "../../src/events/nats/message.ts";
import { publishOnce as publishToNats } from "../../src/events/nats/publish-once.ts";
import { publishOnce as publishToRabbitmq } from "../../src/events/rabbitmq/publish-once.ts";
import { entryKey } from "../../src/events/redis-streams.ts";
import { sendOnce } from "../../src/events/sqs/send-once.ts";
import { stripe, webhook } from "../../src/events/webhook.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { protect } from "../../src/functions/protect.ts";
import { createExchange } from "../../src/http/exchange.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { requestMeaning } from "../../src/http/request-meaning.ts";
import { keyFrom, nodeScope } from "../../src/pipeline/node-key.ts";
import { digestParameters, toStorable } from "../../src/reservations/action-request.ts";
import { createReservations, type Reservations, WINDOWS } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import type { ReservationStore } from "../../src/reservations/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const LONG = "x".repeat(2_000);
const PATH = `/${"x".repeat(950)}`;
const sha256 = (text: string) => hash("sha256", text, "hex");

/**
 * Numbers that `JSON.parse` rounds to a number that others round to as well; it reads the first two as the same
 * number.
 */
const LARGE = ["9007199254740993", "9007199254740992", "-9007199254740993", "1e300", "1e400"] as const;

/** Different values that some encoding could turn into the same text. */
const PAIRS: readonly (readonly [title: string, one: unknown, two: unknown])[] = [
  ["a number and its text", 42, "42"],
  ["a number and the text of its encoding", 42, "#42"],
  ["a number and a bigint", 42, 42n],
  ["a bigint and its text", 42n, "#42n"],
  ["a boolean and its text", true, "true"],
  ["a boolean and the text of its encoding", true, "?true"],
  ["null and its text", null, "null"],
  ["null and the text of its encoding", null, "~"],
  ["an object and its text", { text: "k" }, "k"],
  ["an object and its String()", {}, "[object Object]"],
  ["a list and its only element", ["k"], "k"],
  ["a list and its joined elements", ["k", "l"], "k,l"],
  ["upper case and lower case", "K", "k"],
  ["two letters that look the same", "\u212a", "K"],
  ["two Unicode forms", "\u00e9", "e\u0301"],
  ["a text with and without a trailing space", "k", "k "],
  ["a text with and without a leading space", "k", " k"],
  ["a text with and without a trailing zero byte", "k", "k\0"],
  ["two lone surrogates", "\ud800", "\ud801"],
  ["a lone surrogate and the replacement character", "\ud800", "\ufffd"],
  ["a separator and its escape", "a|b", "a\\|b"],
  ["one escape character and two", "a\\", "a\\\\"],
  ["a long text and its digest", LONG, sha256(LONG)],
  ["a long text and its digest with a prefix", LONG, `sha256:${sha256(LONG)}`],
  ["a long path and its digest", PATH, `sha256:${sha256(PATH)}`],
  ["a text with a length prefix and the text alone", "1:k", "k"],
  ["a percent-encoded text and the text", "%6b", "k"],
];

/** A place that turns a value into an identity. */
interface Place {
  readonly name: string;
  readonly identify: (value: never) => unknown;
  /** Whether a number beyond 2^53 is accepted: only where the number can come from nothing but the program itself. */
  readonly takesLarge?: true;
}

/** Returns the ids of the records that the guard's calls leave in the store. */
function recorded(calls: (guard: Guard, value: never) => unknown): Place["identify"] {
  return async (value) => {
    const store = memoryStore();
    const guard = createGuard({ store, namespace: "test" });
    await calls(guard, value);
    const page = await store.list?.({ namespace: "test", limit: 10 });
    await guard.close();
    // Functions that refuse with a response instead of an error leave no record.
    return page?.records.map(({ id }) => id).join() || "refused";
  };
}

/** Returns the identity that the reservation store receives for a key. */
function keptKey(act: (rooms: Reservations, value: never) => Promise<{ ok: boolean }>): Place["identify"] {
  return async (value) => {
    const inner = memoryReservations();
    let keyId: string | undefined;
    const store: ReservationStore = {
      ...inner,
      transact(group, rules) {
        keyId = group[0]?.keyId;
        return inner.transact(group, rules);
      },
    };
    const { ok } = await act(
      createReservations({ store, windowMs: WINDOWS.clientReplay, purgeEveryMs: 0 }),
      value,
    );
    return ok ? keyId : "refused";
  };
}

const work = () => "done";
const AT = { namespace: "n", scope: "s", operation: "o", key: "k" };

const PARTS: readonly Place[] = [
  { name: "toIdentity: scope", identify: (scope) => toIdentity({ ...AT, scope }).id },
  { name: "toIdentity: key", identify: (key) => toIdentity({ ...AT, key }).id },
  { name: "deriveKey: name", identify: (name) => deriveKey(AT, name) },
  { name: "toFingerprint", takesLarge: true, identify: (value) => toFingerprint(value) },
  { name: "compositeKey: its only part", identify: (part) => compositeKey(part).text },
  { name: "compositeKey: a part of several", identify: (part) => compositeKey("a", part, "b").text },
  { name: "eventKey: source", identify: (source) => eventKey({ source, id: "1" }).text },
  { name: "eventKey: id", identify: (id) => eventKey({ source: "shop", id }).text },
  { name: "actionKey: id", identify: (id) => actionKey({ resource: "r", id, action: "a" }).text },
  {
    name: "actionKey: detail",
    identify: (detail) => actionKey({ resource: "r", id: 1, action: "a", detail }).text,
  },
  {
    name: "operationKey: arguments",
    identify: (argument) => operationKey({ operation: "o", arguments: [argument] }).text,
  },
];

const DOORS: readonly Place[] = [
  { name: "guard.run: key", identify: recorded((guard, key) => guard.run({ operation: "o", key }, work)) },
  {
    name: "guard.run: scope",
    identify: recorded((guard, scope) => guard.run({ operation: "o", key: "k", scope }, work)),
  },
  {
    name: "guard.run: operation",
    identify: recorded((guard, operation) => guard.run({ operation, key: "k" }, work)),
  },
  {
    name: "wrap: keyFrom",
    identify: recorded((guard, value) =>
      guard.wrap((_: unknown) => work(), { operation: "o", keyFrom: [0] })(value),
    ),
  },
  {
    name: "protect: a field of the context",
    identify: recorded((guard, id) => protect(guard, { operation: "o", key: "id", context: { id } }, work)),
  },
  { name: "exclusive: name", identify: recorded((guard, name) => guard.exclusive(name, work)) },
  {
    name: "consumer: key",
    identify: recorded((guard, key) => consumer(guard, { name: "c", key: () => key, work }).handle({})),
  },
  {
    name: "consumer: scope",
    identify: recorded((guard, scope) =>
      consumer(guard, { name: "c", key: () => "k", scope: () => scope, work }).handle({}),
    ),
  },
  {
    name: "claims: key",
    identify: async (key) => {
      const claims = createClaims({ store: memoryStore() });
      const answer = await claims.claim({ operation: "o", key });
      return answer.status === "new" && answer.id;
    },
  },
  {
    name: "reservations: key",
    identify: keptKey((rooms, key) => rooms.resources.declare({ resource: "r", capacity: 1, key })),
  },
  {
    name: "reservations: scope",
    identify: keptKey((rooms, scope) =>
      rooms.resources.declare({ resource: "r", capacity: 1, key: "k", scope }),
    ),
  },
  {
    name: "reservations: the digest of a parameter",
    takesLarge: true,
    identify: (resource) => digestParameters("placeHold", toStorable({ resource })),
  },
];

/** A JSON body with the value; a bigint is written as its digits. */
const jsonOf = (value: unknown) =>
  JSON.stringify({ id: value }, (_, each) => (typeof each === "bigint" ? `${each}` : each));

const received = (value: unknown) =>
  new Request("http://localhost/", { method: "POST", body: jsonOf(value) });

async function posted(guard: Guard, options: object, init: RequestInit): Promise<void> {
  const handle = withIdempotency(guard, { scope: "anyone", ...options }, () => new Response("done"));
  await handle(new Request("http://localhost/", { method: "POST", ...init }));
}

/** Sends a request as an adapter does whose platform does not rewrite the path. */
async function postedTo(guard: Guard, target: unknown): Promise<void> {
  if (typeof target !== "string") throw new TypeError("no path");
  const exchange = createExchange(guard, { scope: "anyone", fingerprint: "none" });
  const header = (name: string) => (name === "idempotency-key" ? "k" : undefined);
  const readBody = async () => ({ kind: "parsed", value: undefined }) as const;
  const request = { method: "POST", target, header, readBody };
  await exchange.handle(
    { ...request, native: undefined } as never,
    async () =>
      ({
        response: { status: 200, headers: [], body: "" },
      }) as never,
  );
}

const MESSAGES: readonly Place[] = [
  {
    name: "a pipeline's key",
    identify: (id) => keyFrom({ id }, ["id"]),
  },
  {
    name: "a pipeline's network and node",
    identify: (name) => {
      const { operation, scope } = nodeScope(name, { name: "n" } as never);
      return JSON.stringify([operation, scope]);
    },
  },
  {
    name: "a CloudEvent's id",
    identify: recorded((guard, id) =>
      cloudEvents(guard, { name: "c", work }).handleEvent({ specversion: "1.0", type: "t", source: "s", id }),
    ),
  },
  {
    name: "a CloudEvent's source",
    identify: recorded((guard, source) =>
      cloudEvents(guard, { name: "c", work }).handleEvent({ specversion: "1.0", type: "t", source, id: "1" }),
    ),
  },
  {
    name: "a webhook's id in its body",
    identify: recorded((guard, id) => {
      const scheme = { ...stripe, id: { json: "id" } };
      return webhook(guard, { name: "w", scheme, verify: () => true, work })(received(id));
    }),
  },
  {
    name: "a tool's key among its arguments",
    identify: recorded((guard, id) => {
      const tool = idempotentTool(guard, { operation: "o", scope: "anyone", key: { argument: "id" } });
      return tool.handler(() => ({ content: [] }))({ id }, {} as never);
    }),
  },
  {
    name: "a tool whose arguments are the key",
    identify: recorded((guard, id) => {
      const tool = idempotentTool(guard, { operation: "o", scope: "anyone", key: "arguments" });
      return tool.handler(() => ({ content: [] }))({ id }, {} as never);
    }),
  },
  {
    name: "an agent's message id",
    identify: recorded((guard, messageId) => {
      const agent = {
        getTask: async () => ({}),
        sendMessage: async () => ({}),
        async *sendMessageStream() {},
      };
      const sent = { message: { messageId } };
      const once = idempotentMessages<MessageHandler>(guard, { scope: "anyone", fingerprint: "none" }, agent);
      return once.sendMessage(sent as never, {} as never);
    }),
  },
  {
    name: "a job's id",
    identify: (id) => jobKey({ id, queueName: "q", timestamp: 1, moveToDelayed: async () => {} })?.text,
  },
  {
    name: "a Kafka record's position",
    identify: (offset) => offsetKey({ topic: "t", partition: 0, message: { offset } } as never).text,
  },
  { name: "a stream entry's position", identify: (id) => entryKey({ stream: "s", id, fields: {} }).text },
  {
    name: "the deduplication id sent to SQS",
    identify: async (key) => {
      const sent: unknown[] = [];
      const client = { sendMessage: async (message: unknown) => void sent.push(message) as never };
      await sendOnce(client, key, { QueueUrl: "https://sqs/1/q.fifo", MessageBody: "b" } as never);
      return (sent[0] as { MessageDeduplicationId: string }).MessageDeduplicationId;
    },
  },
  {
    name: "the message id sent to NATS",
    identify: async (id) => {
      const sent: unknown[] = [];
      const js = { publish: async (_: string, __: unknown, how?: object) => void sent.push(how) };
      await publishToNats(js, "s", "d", { id });
      return (sent[0] as { msgID: string }).msgID;
    },
  },
  {
    name: "the message id sent to RabbitMQ",
    identify: async (id) => {
      const sent: unknown[] = [];
      const channel = {
        publish(_: string, __: string, ___: Buffer, how: object, done: (error: unknown) => void) {
          sent.push(how);
          done(null);
          return true;
        },
      };
      await publishToRabbitmq(channel as never, { id, routingKey: "q", content: Buffer.from("") });
      return (sent[0] as { messageId: string }).messageId;
    },
  },
];

const HTTP: readonly Place[] = [
  {
    name: "HTTP: the key in a header",
    identify: recorded((guard, key) =>
      posted(
        guard,
        {},
        { headers: { "Idempotency-Key": typeof key === "string" ? JSON.stringify(key) : "" } },
      ),
    ),
  },
  {
    name: "HTTP: the key in the body",
    identify: recorded((guard, id) =>
      posted(
        guard,
        { keyField: "id", fingerprint: "none" },
        { headers: { "content-type": "application/json" }, body: jsonOf(id) },
      ),
    ),
  },
  {
    name: "HTTP: the owner",
    identify: recorded((guard, owner) =>
      posted(guard, { scope: () => owner }, { headers: { "Idempotency-Key": "k" } }),
    ),
  },
  {
    name: "HTTP: the path",
    identify: recorded(postedTo),
  },
  {
    name: "HTTP: the fingerprint of a body of bytes",
    takesLarge: true,
    identify: (value) =>
      toFingerprint(
        requestMeaning(
          { method: "POST", target: "/", contentType: "application/json" },
          { kind: "bytes", bytes: Buffer.from(jsonOf(value)) },
          "json",
        ),
      ),
  },
  {
    name: "HTTP: the fingerprint of a parsed body",
    identify: (value) =>
      toFingerprint(
        requestMeaning(
          { method: "POST", target: "/", contentType: "application/json" },
          { kind: "parsed", value: { id: value } },
          "json",
        ),
      ),
  },
];

const PLACES = [...PARTS, ...DOORS, ...MESSAGES, ...HTTP];

/** Returns undefined if the value is refused. */
async function identityAt({ identify }: Place, value: unknown): Promise<unknown> {
  try {
    const identity = await identify(value as never);
    return identity === "refused" ? undefined : identity;
  } catch (error) {
    if (isNevertwiceError(error) || error instanceof TypeError) return undefined;
    throw error;
  }
}

describe.each(PLACES)("$name", (place) => {
  test.each(PAIRS)("gives different identities to %s", async (_, one, two) => {
    const [first, second] = [await identityAt(place, one), await identityAt(place, two)];
    if (first !== undefined || second !== undefined) expect(first).not.toBe(second);
  });

  test("gives the same identity to the same value, and different ones to two plain values", async () => {
    const identities = await Promise.all(["/k", "/l", "/k"].map((value) => identityAt(place, value)));
    expect(identities[0]).toEqual(expect.any(String));
    expect(identities[2]).toBe(identities[0]);
    expect(identities[1]).not.toBe(identities[0]);
  });

  if (place.takesLarge !== true)
    test.each(LARGE)("refuses the number %s", async (text) => {
      expect(await identityAt(place, JSON.parse(text))).toBeUndefined();
    });
});

test("gives different fingerprints to two bodies with numbers that JSON.parse rounds to the same number", () => {
  const request = { method: "POST", target: "/", contentType: "application/json" };
  const print = (text: string) =>
    toFingerprint(
      requestMeaning(request, { kind: "bytes", bytes: Buffer.from(`{"amount":${text}}`) }, "json"),
    );
  expect(print(LARGE[0])).not.toBe(print(LARGE[1]));
});

test("refuses a claim whose fingerprint has a number that JSON.parse rounded", async () => {
  const claims = createClaims({ store: memoryStore() });
  const fingerprint = JSON.parse(`{"amount":${LARGE[0]}}`);
  await expect(claims.claim({ operation: "o", key: "k", fingerprint })).rejects.toMatchObject({
    code: "fingerprint-invalid",
    message: expect.stringContaining("the request.amount is 9007199254740992"),
  });
});

describe("an id that a sender chose never equals the position of another message", () => {
  const nats = (id: string): NatsMessage => ({
    headers: { get: () => id },
    info: { stream: "orders" },
    seq: 5,
    timestampNanos: 7n,
    ack() {},
    ackAck: async () => true,
    nak() {},
    term() {},
    working() {},
  });

  test("in NATS", () => {
    const place = String(messageKey(nats("")));
    expect(place).toBe("orders|#5|#7n");
    expect(String(messageKey(nats(place)))).not.toBe(place);
    expect(String(messageKey(nats("order-17")))).toBe("order-17");
  });

  test("in a Lambda batch", () => {
    const place = recordKey({ topic: "orders", partition: 0, offset: 5 } as unknown as LambdaRecord);
    const sent = { messageId: "m", attributes: { MessageDeduplicationId: String(place) } };
    expect(String(recordKey(sent as unknown as LambdaRecord))).not.toBe(String(place));
  });
});

test("refuses a key that the body names twice", async () => {
  const store = memoryStore();
  const guard = createGuard({ store });
  const handle = withIdempotency(guard, { scope: "anyone", keyField: "id" }, () => new Response("done"));
  const send = async (body: string) => {
    const headers = { "content-type": "application/json" };
    return (await handle(new Request("http://localhost/", { method: "POST", headers, body }))).status;
  };
  expect(await send('{"id":"a","id":"b"}')).toBe(400);
  expect(await send('{"id":"a","\\u0069d":"b"}')).toBe(400);
  expect(await send('{"id":"a","in":{"id":"b"},"text":"\\"id\\":"}')).toBe(200);
  await guard.close();
});
