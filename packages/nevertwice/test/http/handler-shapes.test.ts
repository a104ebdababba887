/** Tests handlers of different shapes behind a guard: HTTP, Lambda and plain functions, on any store. */
import { expect, test, vi } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { consumer } from "../../src/events/index.ts";
import { type LambdaSqsRecord, lambdaBatch, recordKey } from "../../src/events/lambda-batch.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { idempotency } from "../../src/http/lambda.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "../functions/guard-scene.ts";

const post = (key?: string, body = '{"product":"pump"}') =>
  new Request("https://shop.example/orders", {
    method: "POST",
    headers: { "content-type": "application/json", ...(key === undefined ? {} : { "idempotency-key": key }) },
    body,
  });

test("Skill: Idempotency-Key middleware: one order for one key, and an error for each wrong use of a key", async () => {
  const { guard } = createScene();
  const create = vi.fn(async () => Response.json({ orderId: create.mock.calls.length }, { status: 201 }));
  const serve = withIdempotency(guard, { scope: "anyone", required: true }, create);
  const answers = [await serve(post('"1"')), await serve(post('"1"')), await serve(post('"2"'))];
  expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
    { orderId: 1 },
    { orderId: 1 },
    { orderId: 2 },
  ]);
  expect((await serve(post())).status).toBe(400);
  expect((await serve(post('"1"', '{"product":"valve"}'))).status).toBe(422);
});

test("Skill: stored status + headers + body: a replay is the response, byte for byte", async () => {
  const { guard, another } = createScene();
  const bytes = new Uint8Array([0, 255, 128, 10]);
  const headers = { location: "/orders/1", "content-type": "application/octet-stream" };
  const options = { scope: "anyone" } as const;
  await withIdempotency(
    guard,
    options,
    async () => new Response(bytes, { status: 202, headers }),
  )(post('"1"'));
  const never = vi.fn(async () => new Response("again"));
  const replayed = await withIdempotency(another(), options, never)(post('"1"'));
  expect([replayed.status, replayed.headers.get("location")]).toEqual([202, "/orders/1"]);
  expect(replayed.headers.get("content-type")).toBe("application/octet-stream");
  expect(new Uint8Array(await replayed.arrayBuffer())).toEqual(bytes);
  expect(never).not.toHaveBeenCalled();
});

test("Skill: framework-neutral handler shape: one function of a request and its answer, guarded wherever it is called from", async () => {
  const { guard } = createScene();
  const create = vi.fn(async (product: string) => ({ orderId: `order for ${product}` }));
  // As a function, behind fetch, behind API Gateway, and for a queue.
  const plain = guard.wrap(create, { operation: "create-order", key: (product) => product });
  const web = withIdempotency(guard, { scope: "anyone" }, async (request) =>
    Response.json(await create(((await request.json()) as { product: string }).product)),
  );
  const gateway = idempotency(guard, { scope: "anyone" })(async (event: { body?: string | null }) => ({
    statusCode: 201,
    body: JSON.stringify(await create(String(event.body))),
  }));
  const work = ({ body }: LambdaSqsRecord) => create(body);
  const queue = lambdaBatch(consumer(guard, { name: "orders", key: recordKey, work }));
  const http = { method: "POST", path: "/orders" };
  const event = {
    version: "2.0",
    rawPath: "/orders",
    headers: { "idempotency-key": '"g"' },
    requestContext: { http },
    body: "gate",
    isBase64Encoded: false,
  };
  const record: LambdaSqsRecord = {
    messageId: "m-1",
    body: "queue",
    eventSource: "aws:sqs",
    eventSourceARN: "arn:aws:sqs:eu-west-1:1:orders",
    attributes: {},
    messageAttributes: {},
  };
  for (const _ of [1, 2]) {
    expect(await plain("plain")).toEqual({ orderId: "order for plain" });
    expect(await (await web(post('"w"', '{"product":"web"}'))).json()).toEqual({ orderId: "order for web" });
    expect(await gateway(event)).toMatchObject({ statusCode: 201, body: '{"orderId":"order for gate"}' });
    expect(await queue({ Records: [record] })).toEqual({ batchItemFailures: [] });
  }
  expect(create.mock.calls.map(([product]) => product)).toEqual(["plain", "web", "gate", "queue"]);
});

test("Skill: pluggable store port: a guard needs seven methods of a store", async () => {
  const { claim, complete, abandon, renew, read, purge, close } = memoryStore();
  const asked: string[] = [];
  const told = <Ask extends (...args: never[]) => unknown>(name: string, ask: Ask) =>
    ((...args) => {
      asked.push(name);
      return ask(...args);
    }) as Ask;
  const store: Store = {
    claim: told("claim", claim),
    complete: told("complete", complete),
    abandon: told("abandon", abandon),
    renew,
    read,
    purge,
    close,
  };
  const guard = createGuard({ store, purgeEveryMs: 0 });
  const order = { operation: "create-order", key: "1" };
  await guard.run(order, () => Promise.reject(new Error("down"))).catch(() => {});
  for (const _ of [1, 2]) expect(await guard.run(order, async ({ number }) => number)).toBe(2);
  expect(asked).toEqual(["claim", "abandon", "claim", "complete", "claim"]);
  await guard.close();
});
