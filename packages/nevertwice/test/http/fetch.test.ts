/** The fetch adapter: the handler's own request, its answer to the byte, and streams that are never held whole. */
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { current } from "../../src/http/current-replay.ts";
import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

let guard: Guard;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(() => guard.close());

const ANYONE = { scope: "anyone" } as const;

function post(
  key: string | undefined,
  body: RequestInit["body"] = '{"amount":1}',
  headers: RequestInit["headers"] = {},
): Request {
  const all = new Headers({ "content-type": "application/json" });
  for (const [name, value] of new Headers(headers)) all.set(name, value);
  if (key !== undefined) all.set("idempotency-key", `"${key}"`);
  return new Request("https://shop.example/charge?x=1", {
    method: "POST",
    body,
    headers: all,
    duplex: "half",
  } as RequestInit);
}

/** A handler that counts its runs. */
function counting(answer: (request: Request, run: number) => Response | Promise<Response>) {
  const noted = { runs: 0 };
  const handler = (request: Request) => answer(request, ++noted.runs);
  return { noted, handler };
}

const bytesOf = async (response: Response) => [...new Uint8Array(await response.arrayBuffer())];

describe("a handler wrapped with withIdempotency", () => {
  test("receives the same request object and arguments, with its body unread", async () => {
    const seen: unknown[] = [];
    class NextRequest extends Request {
      readonly cookies = new Map([["session", "s1"]]);
    }
    const wrapped = withIdempotency(
      guard,
      { scope: (request: NextRequest) => request.cookies.get("session") },
      async (request: NextRequest, { params }: { params: Promise<{ id: string }> }) => {
        seen.push(request, await params, request.bodyUsed);
        return Response.json(await request.json());
      },
    );
    const request = new NextRequest("https://shop.example/charge", {
      method: "POST",
      body: '{"amount":7}',
      headers: { "idempotency-key": '"k"', "content-type": "application/json" },
    });
    const response = await wrapped(request, { params: Promise.resolve({ id: "7" }) });
    expect(await response.json()).toEqual({ amount: 7 });
    expect(seen).toEqual([request, { id: "7" }, false]);
    expect(seen[0]).toBe(request);
  });

  test("finds its attempt by the request, and none without a key", async () => {
    const attempts: (HttpAttempt | undefined)[] = [];
    const wrapped = withIdempotency(guard, ANYONE, (request) => {
      attempts.push(attemptOf(request));
      return new Response();
    });
    await wrapped(post("k"));
    await wrapped(post(undefined));
    expect(attempts[0]).toMatchObject({ key: "k", number: 1, operation: "POST /charge" });
    expect(attempts[1]).toBeUndefined();
  });

  test("IK-05 without a key returns the handler's own response unchanged", async () => {
    const own = new Response("x");
    const wrapped = withIdempotency(guard, ANYONE, () => own);
    expect(await wrapped(post(undefined))).toBe(own);
  });

  test("IK-18 throws what the handler throws, and runs again afterwards", async () => {
    const { noted, handler } = counting((_, run) => {
      if (run === 1) throw new RangeError("no");
      return new Response("ok");
    });
    const wrapped = withIdempotency(guard, ANYONE, handler);
    await expect(wrapped(post("k"))).rejects.toThrow(new RangeError("no"));
    expect(await (await wrapped(post("k"))).text()).toBe("ok");
    expect(noted.runs).toBe(2);
  });

  test("refuses a body that was already read, and says what to do", async () => {
    const { noted, handler } = counting(() => new Response("ok"));
    const request = post("k");
    await request.text();
    const refused = await withIdempotency(guard, ANYONE, handler)(request);
    expect([refused.status, noted.runs]).toEqual([500, 0]);
    expect(await refused.json()).toMatchObject({ code: "options-invalid" });
  });

  test("leaves a key unknown if its client disconnected and the handler failed", async () => {
    const leaving = new AbortController();
    const { noted, handler } = counting(() => {
      leaving.abort();
      throw new Error("cut off");
    });
    const wrapped = withIdempotency(guard, { ...ANYONE, onLapsed: "hold" }, handler);
    await expect(wrapped(new Request(post("k"), { signal: leaving.signal }))).rejects.toThrow("cut off");
    const again = await wrapped(post("k"));
    expect([again.status, await again.json()]).toMatchObject([409, { code: "unknown" }]);
    expect(noted.runs).toBe(1);
  });
});

describe("an answer", () => {
  test("without a Content-Type is replayed without one", async () => {
    const { handler } = counting(() => new Response(new Uint8Array([104, 105])));
    const wrapped = withIdempotency(guard, ANYONE, handler);
    for (const response of [await wrapped(post("k")), await wrapped(post("k"))]) {
      expect([response.headers.get("content-type"), await response.text()]).toEqual([null, "hi"]);
    }
  });

  test.each([204, 205, 304])("RP-06 with status %d has no body, first and replayed", async (status) => {
    const { noted, handler } = counting(() => new Response(null, { status, headers: { etag: '"1"' } }));
    const wrapped = withIdempotency(guard, ANYONE, handler);
    for (const response of [await wrapped(post("k")), await wrapped(post("k"))]) {
      expect([response.status, response.body, response.headers.get("etag")]).toEqual([status, null, '"1"']);
    }
    expect(noted.runs).toBe(1);
  });

  test.each([204, 205, 304])("RP-04 from current() with status %d has no body either", async (status) => {
    const replay = current<Request>(() => ({ status, body: "unfit" }));
    const wrapped = withIdempotency(guard, { ...ANYONE, replay }, () => new Response("x"));
    await wrapped(post("k"));
    const again = await wrapped(post("k"));
    expect([again.status, again.body]).toEqual([status, null]);
  });

  test("of Response.redirect is sent although its headers are immutable", async () => {
    const { noted, handler } = counting(() => Response.redirect("https://shop.example/done", 303));
    const wrapped = withIdempotency(guard, ANYONE, handler);
    const sent = () => post("k", "{}", { origin: "https://page.example" });
    const first = await wrapped(sent());
    const again = await wrapped(sent());
    for (const response of [first, again]) {
      expect([response.status, response.headers.get("location")]).toEqual([303, "https://shop.example/done"]);
      expect(response.headers.get("access-control-expose-headers")).toBe(`${REPLAYED_HEADER}, Retry-After`);
    }
    expect(noted.runs).toBe(1);
  });

  test("of Response.error counts as a failure, and releases its key", async () => {
    const { noted, handler } = counting(() => Response.error());
    const wrapped = withIdempotency(guard, ANYONE, handler);
    const sent = () => post("k", "{}", { origin: "https://page.example" });
    expect((await wrapped(sent())).type).toBe("error");
    expect((await wrapped(sent())).type).toBe("error");
    expect(noted.runs).toBe(2);
  });

  test("adds its own values to those that the handler set", async () => {
    const { handler } = counting(
      () => new Response("x", { headers: { "access-control-expose-headers": "X-A" } }),
    );
    const response = await withIdempotency(
      guard,
      ANYONE,
      handler,
    )(post("k", "{}", { origin: "https://p.example" }));
    expect(response.headers.get("access-control-expose-headers")).toBe(
      `X-A, ${REPLAYED_HEADER}, Retry-After`,
    );
  });

  test("whose body was read by the handler itself is the handler's failure", async () => {
    const { noted, handler } = counting(async () => {
      const response = new Response("x");
      await response.text();
      return response;
    });
    const wrapped = withIdempotency(guard, ANYONE, handler);
    await expect(wrapped(post("k"))).rejects.toThrow(TypeError);
    await expect(wrapped(post("k"))).rejects.toThrow(TypeError);
    expect(noted.runs).toBe(2);
  });
});

/** Chunks of one size, and what their reader did. */
function source(count: number, size: number, type = "application/octet-stream") {
  const noted = { pulled: 0, cancelled: undefined as { reason: unknown } | undefined };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (noted.pulled === count) return controller.close();
        controller.enqueue(new Uint8Array(size).fill(++noted.pulled % 256));
      },
      cancel(reason) {
        noted.cancelled = { reason };
      },
    },
    { highWaterMark: 0 },
  );
  return { noted, response: () => new Response(stream, { headers: { "content-type": type } }) };
}

describe("a streamed answer", () => {
  test("RP-08 over the limit arrives whole, is pulled on demand, and is replayed without its body", async () => {
    const { noted: read, response } = source(100, 1_000);
    const { noted, handler } = counting(response);
    const wrapped = withIdempotency(guard, { ...ANYONE, maxOutcomeBytes: 2_500 }, handler);
    const first = await wrapped(post("k"));
    expect(read.pulled).toBe(3);
    const reader = (first.body as ReadableStream<Uint8Array>).getReader();
    for (let i = 1; i <= 4; i++) expect((await reader.read()).value?.[0]).toBe(i);
    await new Promise((resolve) => setImmediate(resolve));
    expect(read.pulled).toBe(4);
    let size = 4_000;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.byteLength;
    }
    expect(size).toBe(100_000);
    const again = await wrapped(post("k"));
    expect([again.status, await again.json()]).toMatchObject([409, { code: "already-done" }]);
    expect(noted.runs).toBe(1);
  });

  test("of events is not read by the layer, and its key is completed before the first byte", async () => {
    const { noted: read, response } = source(2, 1, "text/event-stream; charset=utf-8");
    const { handler } = counting(response);
    const wrapped = withIdempotency(guard, ANYONE, handler);
    const first = await wrapped(post("k"));
    expect(read.pulled).toBe(0);
    expect(await (await wrapped(post("k"))).json()).toMatchObject({ code: "already-done" });
    expect(await bytesOf(first)).toEqual([1, 2]);
  });

  test("is cancelled when its client disconnects", async () => {
    const { noted: read, response } = source(100, 1_000);
    const { handler } = counting(response);
    const first = await withIdempotency(guard, { ...ANYONE, maxOutcomeBytes: 2_500 }, handler)(post("k"));
    await first.body?.cancel("gone");
    expect(read.cancelled).toEqual({ reason: "gone" });
  });

  test("that fails before it is complete counts as a failed handler", async () => {
    const { noted, handler } = counting(
      (_, run) =>
        new Response(
          new ReadableStream({
            pull(controller) {
              if (run > 1) return controller.close();
              controller.error(new Error("torn"));
            },
          }),
        ),
    );
    const wrapped = withIdempotency(guard, ANYONE, handler);
    await expect(wrapped(post("k"))).rejects.toThrow("torn");
    expect((await wrapped(post("k"))).status).toBe(200);
    expect(noted.runs).toBe(2);
  });

  test("is cancelled if another attempt's answer replaces it", async () => {
    const clock = manualClock();
    const slow = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
    const { noted: read, response } = source(100, 1_000);
    const other = withIdempotency(slow, ANYONE, () => new Response("theirs"));
    const wrapped = withIdempotency(slow, { ...ANYONE, maxOutcomeBytes: 2_500 }, async () => {
      // By the store's clock the lease is over: another attempt takes the key over and completes it.
      clock.advance(30_000);
      await other(post("k"));
      return response();
    });
    const answer = await wrapped(post("k"));
    expect([answer.headers.get(REPLAYED), await answer.text()]).toEqual(["true", "theirs"]);
    expect(read).toEqual({ pulled: 3, cancelled: { reason: undefined } });
    await slow.close();
  });
});

test("its options are checked when it is created", () => {
  // @ts-expect-error: a scope must be said.
  expect(() => withIdempotency(guard, {}, () => new Response())).toThrow("scope is missing");
  // @ts-expect-error: there is no such option.
  expect(() => withIdempotency(guard, { ...ANYONE, keys: 1 }, () => new Response())).toThrow('called "keys"');
});

test("its types are the handler's own", () => {
  class NextRequest extends Request {
    readonly geo = { city: "Ulm" };
  }
  const next = withIdempotency(
    guard,
    {
      scope: (request) => request.geo.city,
      keep: ({ status }, { geo }) => (geo.city === "" && status ? "keep" : undefined),
    },
    async (_request: NextRequest, _context: { params: Promise<{ id: string }> }) => new Response(),
  );
  expectTypeOf(next).toEqualTypeOf<
    (request: NextRequest, context: { params: Promise<{ id: string }> }) => Promise<Response>
  >();
  const plain = withIdempotency(
    guard,
    { scope: (request) => request.headers.get("x-user") ?? undefined },
    (request) => {
      expectTypeOf(request).toEqualTypeOf<Request>();
      return new Response();
    },
  );
  expectTypeOf(plain).toEqualTypeOf<(request: Request) => Promise<Response>>();
  expectTypeOf(attemptOf).returns.toEqualTypeOf<HttpAttempt | undefined>();
});
