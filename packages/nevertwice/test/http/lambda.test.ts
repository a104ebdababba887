/** The Lambda adapter: events and results of both versions, of function URLs and of load balancers. */
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { attemptOf, idempotency, type LambdaEvent, type LambdaReply } from "../../src/http/lambda.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { deferred } from "../deferred.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

let guard: Guard;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(() => guard.close());

const ANYONE = { scope: "anyone" } as const;
const BODY = '{"amount":1}';

/** As API Gateway sends it for an HTTP API, and a function URL likewise. */
function version2(key: string, more: Partial<LambdaEvent> = {}) {
  return {
    version: "2.0",
    routeKey: "POST /charge",
    rawPath: "/charge",
    rawQueryString: "a=1&a=2",
    headers: { "content-type": "application/json", "idempotency-key": `"${key}"` },
    requestContext: { http: { method: "POST", path: "/charge" }, stage: "$default" },
    body: BODY,
    isBase64Encoded: false,
    ...more,
  };
}

/** As API Gateway sends it for a REST API. */
function version1(key: string, more: Partial<LambdaEvent> = {}) {
  return {
    resource: "/charge",
    httpMethod: "POST",
    path: "/charge",
    headers: { "Content-Type": "application/json", "Idempotency-Key": `"${key}"` },
    multiValueHeaders: { "Content-Type": ["application/json"], "Idempotency-Key": [`"${key}"`] },
    queryStringParameters: { a: "2" },
    multiValueQueryStringParameters: { a: ["1", "2"] },
    requestContext: { stage: "prod" },
    body: BODY,
    isBase64Encoded: false,
    ...more,
  };
}

/** As a load balancer sends it to a target group without multi-value headers. */
function balancer(key: string, more: Partial<LambdaEvent> = {}) {
  return {
    httpMethod: "POST",
    path: "/charge",
    headers: { "content-type": "application/json", "idempotency-key": `"${key}"` },
    queryStringParameters: { a: "2" },
    requestContext: { elb: { targetGroupArn: "arn" } },
    body: BODY,
    isBase64Encoded: false,
    ...more,
  };
}

/** A handler that counts its runs, wrapped. */
function counted(answer: (run: number, event: LambdaEvent) => unknown, options: object = {}) {
  const noted = { runs: 0 };
  const handler = idempotency(guard, { ...ANYONE, ...options })(async (event: LambdaEvent) =>
    answer(++noted.runs, event),
  );
  return { noted, handler };
}

describe.each([
  ["version 2", version2, { headers: { [REPLAYED]: "true" } }],
  ["version 1", version1, { multiValueHeaders: { [REPLAYED]: ["true"] } }],
  ["a load balancer", balancer, { headers: { [REPLAYED]: "true" } }],
])("with events of %s, a handler", (_, event, marked) => {
  test("IK-01, IK-02 runs once; its own result is returned, and then replayed in the event's format", async () => {
    const own = { statusCode: 201, headers: { Location: "/charges/1" }, body: '{"id":1}' };
    const { noted, handler } = counted(() => own);
    expect(await handler(event("k"))).toBe(own);
    const again = (await handler(event("k"))) as LambdaReply;
    expect(again).toMatchObject({ statusCode: 201, body: '{"id":1}', isBase64Encoded: false, ...marked });
    expect(again.headers?.location ?? again.multiValueHeaders?.location?.[0]).toBe("/charges/1");
    expect(noted.runs).toBe(1);
  });

  test("IK-06 is not run for another body with its key", async () => {
    const { noted, handler } = counted(() => ({ statusCode: 200 }));
    await handler(event("k"));
    const refused = (await handler(event("k", { body: '{"amount":2}' }))) as LambdaReply;
    expect([refused.statusCode, JSON.parse(refused.body).code, noted.runs]).toEqual([422, "conflict", 1]);
  });

  test("IK-08 runs once while a duplicate arrives", async () => {
    const { promise: running, resolve: answer } = deferred<object>();
    const { noted, handler } = counted(() => running);
    const first = handler(event("k"));
    const second = (await handler(event("k"))) as LambdaReply;
    answer({ statusCode: 204 });
    expect([second.statusCode, ((await first) as LambdaReply).statusCode, noted.runs]).toEqual([409, 204, 1]);
    expect(second.headers?.["retry-after"] ?? second.multiValueHeaders?.["retry-after"]?.[0]).toBe("1");
  });

  test("IK-17, IK-18 runs again if it failed", async () => {
    const { noted, handler } = counted((run) => {
      if (run === 1) throw new RangeError("no");
      return { statusCode: run === 2 ? 500 : 200 };
    });
    await expect(handler(event("k"))).rejects.toThrow(new RangeError("no"));
    expect(await handler(event("k"))).toEqual({ statusCode: 500 });
    expect(await handler(event("k"))).toEqual({ statusCode: 200 });
    expect(noted.runs).toBe(3);
  });

  test("RP-06 answers bytes as base64, first and replayed", async () => {
    const own = {
      statusCode: 200,
      headers: { "content-type": "image/png" },
      body: Buffer.from([0x89, 0x50, 0xff, 0x00]).toString("base64"),
      isBase64Encoded: true,
    };
    const { handler } = counted(() => own);
    expect(await handler(event("k"))).toBe(own);
    expect(await handler(event("k"))).toMatchObject({ body: own.body, isBase64Encoded: true });
  });

  test("RP-06 answers 204 without a body, first and replayed", async () => {
    const { handler } = counted(() => ({ statusCode: 204 }));
    expect(await handler(event("k"))).toEqual({ statusCode: 204 });
    expect(await handler(event("k"))).toMatchObject({ statusCode: 204, body: "", isBase64Encoded: false });
  });

  test("receives a base64 body unchanged, and its bytes are compared", async () => {
    const { noted, handler } = counted((_run, { body }) => ({ statusCode: 200, body }));
    const encoded = { body: Buffer.from(BODY).toString("base64"), isBase64Encoded: true };
    expect(await handler(event("k", encoded))).toEqual({ statusCode: 200, body: encoded.body });
    expect(await handler(event("k"))).toMatchObject({ statusCode: 200 });
    expect(noted.runs).toBe(1);
  });

  test("is not run for a body over the limit", async () => {
    const { noted, handler } = counted(() => ({ statusCode: 200 }), { maxBodyBytes: 11 });
    expect(await handler(event("k"))).toMatchObject({ statusCode: 413 });
    expect(noted.runs).toBe(0);
  });

  test("counts another query as another request", async () => {
    const { handler } = counted(() => ({ statusCode: 200 }));
    await handler(event("k"));
    const { multiValueQueryStringParameters: isMulti, rawQueryString: isRaw } = event("k") as LambdaEvent;
    const other = event("k", {
      ...(isRaw && { rawQueryString: "a=1&a=3" }),
      // Version 1 has only the last value in one member, and all values in the other.
      ...(isMulti
        ? { multiValueQueryStringParameters: { a: ["3", "2"] } }
        : { queryStringParameters: { a: "3" } }),
    });
    expect(await handler(other)).toMatchObject({ statusCode: 422 });
  });

  test("that returns no status counts as successful, and does not run again", async () => {
    const { noted, handler } = counted(() => undefined);
    expect(await handler(event("k"))).toBeUndefined();
    expect(await handler(event("k"))).toMatchObject({ statusCode: 200, body: "" });
    expect(noted.runs).toBe(1);
  });

  test("finds its attempt by the event, and is passed its other arguments", async () => {
    const context = { getRemainingTimeInMillis: () => 3_000, awsRequestId: "r" };
    const seen: unknown[] = [];
    const handler = idempotency(
      guard,
      ANYONE,
    )(async (given: LambdaEvent, { awsRequestId }: typeof context) => {
      seen.push(attemptOf(given)?.key, awsRequestId);
      return { statusCode: 200 };
    });
    await handler(event("k"), context);
    const { "idempotency-key": _key, ...headers } = event("k").headers as Record<string, string>;
    await handler({ ...event("k"), headers, multiValueHeaders: {}, httpMethod: "GET" }, context);
    expect(seen).toEqual(["k", "r", undefined, "r"]);
  });
});

describe("with events of version 2", () => {
  test.each([
    ["an object", { id: 7 }, '{"id":7}'],
    ["a string", "hello", "hello"],
  ])("%s alone means a 200 of JSON", async (_, own, body) => {
    const { handler } = counted(() => own);
    expect(await handler(version2("k"))).toBe(own);
    expect(await handler(version2("k"))).toMatchObject({
      statusCode: 200,
      headers: { "content-type": "application/json" },
      body,
    });
  });

  test("a header that the layer adds to such an answer does not change its meaning", async () => {
    const { handler } = counted(() => ({ id: 7 }));
    const event = version2("k");
    expect(await handler({ ...event, headers: { ...event.headers, origin: "https://p.example" } })).toEqual({
      statusCode: 200,
      headers: {
        "content-type": "application/json",
        "access-control-expose-headers": `${REPLAYED_HEADER}, Retry-After`,
      },
      body: '{"id":7}',
    });
  });

  test("RP-07 cookies are the handler's own at first, and are not replayed", async () => {
    const own = { statusCode: 200, cookies: ["a=1", "b=2"], body: "x" };
    const { handler } = counted(() => own);
    expect(await handler(version2("k"))).toBe(own);
    expect(await handler(version2("k"))).not.toHaveProperty("cookies");
  });

  test("SF-12 two keys, which come joined by a comma, are refused", async () => {
    const { noted, handler } = counted(() => ({ statusCode: 200 }));
    const refused = await handler(version2("k", { headers: { "idempotency-key": '"k1","k2"' } }));
    expect([(refused as LambdaReply).statusCode, noted.runs]).toEqual([400, 0]);
  });
});

describe("with events of version 1", () => {
  test("SF-12 two keys are refused, though `headers` shows the last one alone", async () => {
    const { noted, handler } = counted(() => ({ statusCode: 200 }));
    const two = { "Idempotency-Key": ['"k1"', '"k2"'] };
    const refused = (await handler(version1("k2", { multiValueHeaders: two }))) as LambdaReply;
    expect([refused.statusCode, noted.runs]).toEqual([400, 0]);
  });

  test("headers with several values are kept as several, whichever way they were given", async () => {
    const own = {
      statusCode: 200,
      headers: { Link: "</a>", "content-language": "en" },
      multiValueHeaders: { Link: ["</a>", "</b>"] },
      body: "x",
    };
    const { handler } = counted(() => own);
    expect(await handler(version1("k"))).toBe(own);
    expect((await handler(version1("k"))) as LambdaReply).toMatchObject({
      multiValueHeaders: { link: ["</a>", "</b>"], "content-language": ["en"] },
    });
  });

  test("a header that the layer adds joins the values of the handler", async () => {
    const { handler } = counted((run) =>
      run === 1
        ? { statusCode: 200, multiValueHeaders: { "Access-Control-Expose-Headers": ["X-A"] } }
        : { statusCode: 200, headers: { "Access-Control-Expose-Headers": "X-A" } },
    );
    const from = (key: string) => {
      const event = version1(key);
      return { ...event, multiValueHeaders: { ...event.multiValueHeaders, Origin: ["https://p.example"] } };
    };
    expect(await handler(from("k1"))).toEqual({
      statusCode: 200,
      multiValueHeaders: { "Access-Control-Expose-Headers": ["X-A", `${REPLAYED_HEADER}, Retry-After`] },
    });
    expect(await handler(from("k2"))).toEqual({
      statusCode: 200,
      headers: { "Access-Control-Expose-Headers": `X-A, ${REPLAYED_HEADER}, Retry-After` },
    });
  });
});

describe("the lease", () => {
  /** The lease when a handler that may run for `remainingMs` begins. */
  async function leaseOf(remainingMs: number | undefined, options: object = {}): Promise<number> {
    const clock = manualClock();
    const timed = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
    const handler = idempotency(timed, { ...ANYONE, operation: "o", ...options })(
      async (_event: LambdaEvent, _context: unknown) => {
        const record = await timed.read({ operation: "o", key: "k" });
        return { statusCode: 200, body: String(record?.leaseLeftMs) };
      },
    );
    const context = remainingMs === undefined ? {} : { getRemainingTimeInMillis: () => remainingMs };
    return Number(((await handler(version2("k"), context)) as { body: string }).body);
  }

  test("is no longer than the function may run", async () => {
    expect(await leaseOf(2_999.4)).toBe(3_000);
  });

  test("is never so short that it could not be renewed", async () => {
    expect(await leaseOf(12)).toBe(1_000);
  });

  test("is not changed if the function may run longer, or does not report its time", async () => {
    expect(await leaseOf(900_000)).toBe(30_000);
    expect(await leaseOf(undefined)).toBe(30_000);
    expect(await leaseOf(900_000, { leaseMs: 5_000 })).toBe(5_000);
  });
});

test("a handler that takes a callback is refused, since its result cannot be awaited", () => {
  const wrap = idempotency(guard, ANYONE);
  expect(() => wrap((_event: LambdaEvent, _context: unknown, _callback: unknown) => {})).toThrow("callback");
});

test("its types are the handler's own", () => {
  // The parts of the types of AWS that could conflict with ours.
  interface EventV2 {
    version: string;
    rawPath: string;
    rawQueryString: string;
    headers: { [name: string]: string | undefined };
    requestContext: { http: { method: string }; authorizer?: { jwt: { claims: { sub: string } } } };
    body?: string;
    isBase64Encoded: boolean;
  }
  interface EventV1 {
    httpMethod: string;
    path: string;
    headers: { [name: string]: string | undefined };
    multiValueHeaders: { [name: string]: string[] | undefined };
    queryStringParameters: { [name: string]: string | undefined } | null;
    multiValueQueryStringParameters: { [name: string]: string[] | undefined } | null;
    requestContext: { accountId: string; stage: string };
    body: string | null;
    isBase64Encoded: boolean;
  }
  interface Result {
    statusCode: number;
    headers?: { [name: string]: boolean | number | string };
    multiValueHeaders?: { [name: string]: (boolean | number | string)[] };
    body: string;
    isBase64Encoded?: boolean;
  }
  interface Context {
    getRemainingTimeInMillis(): number;
    functionName: string;
  }

  const v2 = idempotency(guard, {
    scope: ({ requestContext }: EventV2) => requestContext.authorizer?.jwt.claims.sub,
  })(async (event, context: Context) => {
    expectTypeOf(event).toEqualTypeOf<EventV2>();
    return { statusCode: 200, body: context.functionName };
  });
  expectTypeOf(v2).parameters.toEqualTypeOf<[event: EventV2, context: Context]>();
  const v1 = idempotency(
    guard,
    ANYONE,
  )(async (_event: EventV1): Promise<Result> => ({ statusCode: 200, body: "" }));
  expectTypeOf(v1).toExtend<(event: EventV1, context: Context) => Promise<Result>>();
  expectTypeOf(v1).returns.toEqualTypeOf<Promise<Result | LambdaReply>>();
});

test("a path is spelt as the gateway's route spells it, in both versions of events", async () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  let runs = 0;
  const serve = idempotency(guard, { scope: "anyone" })(async (_event: LambdaEvent) => {
    runs++;
    return { statusCode: 201, body: "created" };
  });
  const headers = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };
  for (const path of ["/payments/Ab", "/payments/Ab/", "/Payments/Ab"])
    await serve({ httpMethod: "POST", path, resource: "/payments/{id}", headers, body: "{}" });
  expect(runs).toBe(1);
  const http = {
    requestContext: { stage: "prod", http: { method: "POST" } },
    routeKey: "POST /orders/{id}",
    headers,
  };
  for (const rawPath of ["/prod/orders/Ab", "/prod/ORDERS/Ab"]) await serve({ ...http, rawPath, body: "{}" });
  expect(runs).toBe(2);
  await serve({ ...http, rawPath: "/prod/orders/AB", body: "{}" });
  expect(runs).toBe(3);
});
