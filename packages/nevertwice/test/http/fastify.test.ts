/** The Fastify plugin, with inject and over real sockets. */
import { once } from "node:events";
import http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { PassThrough, Readable, Transform } from "node:stream";
import { createGzip, gunzipSync, gzipSync } from "node:zlib";
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type InjectOptions,
} from "fastify";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { current } from "../../src/http/current-replay.ts";
import { idempotency, type RouteIdempotency } from "../../src/http/fastify.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

let guard: Guard;
let app: FastifyInstance;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  app = fastify({ forceCloseConnections: true });
});
afterEach(async () => {
  await app.close();
  await guard.close();
});

const ANYONE = { scope: "anyone" } as const;

interface Sent {
  readonly method?: "POST" | "PUT" | "GET";
  readonly path?: string;
  readonly key?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer | ReadableStream | null;
}
interface Got {
  readonly status: number;
  header(name: string): string | null;
  readonly cookies: string[];
  readonly bytes: Buffer;
  readonly text: string;
  json(): Record<string, unknown>;
}
type Send = (sent?: Sent) => Promise<Got>;

const headersOf = ({ key = "k", headers }: Sent) => ({
  "content-type": "application/json",
  "idempotency-key": `"${key}"`,
  ...headers,
});

/** Without a socket, as tests of Fastify apps usually send requests. */
async function injected(): Promise<Send> {
  return async (sent = {}) => {
    const { method = "POST", path = "/charge", body = '{"amount":1}' } = sent;
    const payload = body instanceof ReadableStream ? Readable.fromWeb(body as never) : (body ?? undefined);
    const options: InjectOptions = { method, url: path, headers: headersOf(sent) };
    const { statusCode, headers, rawPayload } = await app.inject({ ...options, ...(payload && { payload }) });
    const values = (name: string) => [headers[name] ?? []].flat().map(String);
    return {
      status: statusCode,
      header: (name) => (headers[name] === undefined ? null : values(name).join(", ")),
      cookies: values("set-cookie"),
      bytes: rawPayload,
      text: rawPayload.toString(),
      json: () => JSON.parse(rawPayload.toString()),
    };
  };
}

/** On a socket. */
async function served(): Promise<Send> {
  const address = await app.listen({ port: 0, host: "127.0.0.1" });
  return async (sent = {}) => {
    const { method = "POST", path = "/charge", body = '{"amount":1}' } = sent;
    const init = { method, headers: headersOf(sent), redirect: "manual", duplex: "half" } as const;
    const response = await fetch(address + path, { ...init, ...(body !== null && { body: body as never }) });
    const bytes = Buffer.from(await response.arrayBuffer());
    return {
      status: response.status,
      header: (name) => response.headers.get(name),
      cookies: response.headers.getSetCookie(),
      bytes,
      text: bytes.toString(),
      json: () => JSON.parse(bytes.toString()),
    };
  };
}

const replayedOf = ({ header }: Got) => header(REPLAYED);

describe.each([
  ["with inject", injected],
  ["over a socket", served],
])("%s, a route", (_, open) => {
  test("IK-01, IK-02 runs once, and its response is replayed", async () => {
    let runs = 0;
    await app.register(idempotency(guard, ANYONE));
    app.post("/charge", async ({ body, idempotency: attempt }, reply) => {
      reply.code(201).header("location", "/charges/1");
      return { run: ++runs, body, key: attempt?.key };
    });
    const send = await open();
    const first = await send();
    const again = await send();
    for (const got of [first, again]) {
      expect([got.status, got.json()]).toEqual([201, { run: 1, body: { amount: 1 }, key: "k" }]);
      expect(got.header("location")).toBe("/charges/1");
      expect(got.header("content-type")).toBe("application/json; charset=utf-8");
      expect(got.header("content-length")).toBe(String(first.bytes.length));
    }
    expect([replayedOf(first), replayedOf(again)]).toEqual([null, "true"]);
    expect(runs).toBe(1);
  });

  test("IK-06, FP-13 is not run for another body, nor for one with repeated members", async () => {
    let runs = 0;
    await app.register(idempotency(guard, ANYONE));
    app.post("/charge", async () => ({ run: ++runs }));
    const send = await open();
    await send({ body: '{"amount":1}' });
    expect(replayedOf(await send({ body: '{ "amount": 1.0 }' }))).toBe("true");
    expect((await send({ body: '{"amount":2}' })).json().code).toBe("conflict");
    // A parser takes the last of two equal names, so the parsed bodies are equal.
    expect((await send({ body: '{"amount":7,"amount":1}' })).status).toBe(422);
    expect(runs).toBe(1);
  });

  test("IK-18 releases the key after an error that the error handler turns into a failure, and sends that failure", async () => {
    let runs = 0;
    await app.register(idempotency(guard, ANYONE));
    app.post("/charge", async () => {
      throw Object.assign(new Error(`no ${++runs}`), { statusCode: runs === 1 ? 503 : 402 });
    });
    app.setErrorHandler((error: Error & { statusCode: number }, _request, reply) =>
      reply.code(error.statusCode).header("x-e", "1").send({ message: error.message }),
    );
    const send = await open();
    const answers = [await send(), await send(), await send()];
    expect(answers.map(({ status, json }) => [status, json().message])).toEqual([
      [503, "no 1"],
      [402, "no 2"],
      [402, "no 2"],
    ]);
    expect(answers.map(({ header }) => header("x-e"))).toEqual(["1", "1", null]);
    expect(runs).toBe(2);
  });

  test.each([
    ["a serialized object", 200, (r: FastifyReply) => r.send({ id: 1, secret: 2 }), '{"id":1}'],
    ["text", 200, (r: FastifyReply) => r.type("text/plain").send("grüße"), "grüße"],
    [
      "bytes that are no text",
      200,
      (r: FastifyReply) => r.send(Buffer.from([0xff, 0xfe, 0])),
      [0xff, 0xfe, 0],
    ],
    [
      "a stream",
      200,
      (r: FastifyReply) => r.send(Readable.from([Buffer.from("ab"), Buffer.from("cd")])),
      "abcd",
    ],
    [
      "a web response",
      200,
      (r: FastifyReply) => r.send(new Response("web", { headers: { etag: '"1"' } })),
      "web",
    ],
    ["nothing", 204, (r: FastifyReply) => r.code(204).send(), ""],
    ["a redirect", 303, (r: FastifyReply) => r.redirect("/done", 303), ""],
    ["the raw response", 200, (r: FastifyReply) => void r.hijack().raw.end("raw"), "raw"],
  ])(
    "RP-06 that answers with %s does so to the byte, at first and again",
    async (_what, status, answer, expected) => {
      let runs = 0;
      await app.register(idempotency(guard, ANYONE));
      const schema = { response: { 200: { type: "object", properties: { id: { type: "integer" } } } } };
      app.post("/charge", { schema }, (_request, reply) => {
        runs++;
        reply.header("content-language", "en");
        reply.raw.setHeader("content-location", "/charges/1");
        answer(reply);
      });
      const send = await open();
      const [first, again] = [await send(), await send()];
      for (const got of [first, again]) {
        expect([got.status, got.bytes]).toEqual([status, Buffer.from(expected as string)]);
        expect(got.header("content-location")).toBe("/charges/1");
        expect(got.header("content-type")).toBe(first.header("content-type"));
      }
      expect([replayedOf(first), replayedOf(again), runs]).toEqual([null, "true", 1]);
    },
  );

  test("has the headers of earlier hooks on replays and refusals too", async () => {
    let requests = 0;
    await app.register(idempotency(guard, ANYONE));
    app.addHook("onRequest", (_request, reply, done) => {
      reply.header("access-control-allow-origin", "https://p.example");
      reply.header("access-control-expose-headers", "X-Request-Id");
      reply.raw.setHeader("x-request-id", `r${++requests}`);
      done();
    });
    app.post("/charge", async () => ({ ok: true }));
    const send = await open();
    const headers = { origin: "https://p.example" };
    const answers = [await send({ headers }), await send({ headers }), await send({ headers, body: "[]" })];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 422]);
    for (const [i, { header }] of answers.entries()) {
      expect(header("access-control-allow-origin")).toBe("https://p.example");
      expect(header("access-control-expose-headers")).toBe(`X-Request-Id, ${REPLAYED_HEADER}, Retry-After`);
      expect(header("x-request-id")).toBe(`r${i + 1}`);
    }
  });

  test("RP-06 has the same bytes if hooks change the response, and they run once", async () => {
    await app.register(idempotency(guard, ANYONE));
    app.addHook("onSend", (_request, reply, payload, done) => {
      reply.header("content-encoding", "gzip").removeHeader("content-length");
      const packed = Readable.from([Buffer.from(`<${payload}>`)]).pipe(createGzip());
      done(null, packed);
    });
    app.post("/charge", async () => "charged ".repeat(100));
    const responses: string[] = [];
    app.addHook("onResponse", (request, _reply, done) => {
      responses.push(request.method);
      done();
    });
    const send = await open();
    for (const got of [await send(), await send()]) {
      expect(got.header("content-encoding")).toBe("gzip");
      const text = got.bytes[0] === 0x1f ? gunzipSync(got.bytes).toString() : got.text;
      expect(text).toBe(`<${"charged ".repeat(100)}>`);
    }
    expect(responses).toEqual(["POST", "POST"]);
  });

  test("RP-06 sends each client a coding that it can read if a hook compresses", async () => {
    await app.register(idempotency(guard, ANYONE));
    app.addHook("onSend", (request, reply, payload, done) => {
      reply.header("vary", "origin, accept-encoding");
      if (request.headers["accept-encoding"] !== "gzip") return done(null, payload);
      reply.header("content-encoding", "gzip").removeHeader("content-length");
      done(null, gzipSync(String(payload)));
    });
    app.post("/charge", async () => "charged ".repeat(100));
    const send = await open();
    const asked = (codings: string) => send({ headers: { "accept-encoding": codings } });
    const first = await asked("gzip");
    for (const codings of ["identity", "gzip;q=0", "br"]) {
      const plain = await asked(codings);
      expect([plain.header("content-encoding"), plain.text]).toEqual([null, "charged ".repeat(100)]);
    }
    const again = await asked("gzip");
    expect([again.header("content-encoding"), again.bytes]).toEqual(["gzip", first.bytes]);
  });

  test("RP-08 over the limit arrives whole, is not held in memory, and is replayed without its body", async () => {
    await app.register(idempotency(guard, { ...ANYONE, maxOutcomeBytes: 1_000, onNotKept: "status" }));
    let runs = 0;
    app.post("/charge", (_request, reply) => {
      runs++;
      const chunks = Array.from({ length: 200 }, () => Buffer.alloc(1_000, "x"));
      return reply.type("text/plain").send(Readable.from(chunks));
    });
    const send = await open();
    expect((await send()).text).toBe("x".repeat(200_000));
    const again = await send();
    expect([again.status, again.text, again.header("nevertwice-outcome")]).toEqual([200, "", "not-kept"]);
    expect(again.header("content-type")).toBe("text/plain");
    expect(runs).toBe(1);
  });

  test("is not run if a function in the options rejects, even with undefined", async () => {
    let runs = 0;
    await app.register(
      idempotency(guard, {
        scope: ({ headers }) => Promise.reject(headers["x-none"] ? null : new Error("who?")),
      }),
    );
    app.post("/charge", async () => ({ run: ++runs }));
    const send = await open();
    const answers = [await send(), await send({ headers: { "x-none": "1" } })];
    expect(answers.map(({ status, json }) => [status, json().message])).toEqual([
      [500, "who?"],
      [500, "rejected without a reason"],
    ]);
    expect(runs).toBe(0);
  });

  test("takes its own options, and can be left unprotected", async () => {
    await app.register(idempotency(guard, ANYONE));
    let runs = 0;
    const handler = async ({ idempotency: attempt }: FastifyRequest) => ({
      run: ++runs,
      of: attempt?.operation,
    });
    app.post("/a", { config: { idempotency: { required: true, operation: "charge" } } }, handler);
    app.put("/b", { config: { idempotency: { methods: ["PUT"], operation: "charge" } } }, handler);
    app.post("/c", { config: { idempotency: false } }, handler);
    const send = await open();
    expect((await app.inject({ method: "POST", url: "/a" })).statusCode).toBe(400);
    expect((await send({ path: "/a" })).json()).toEqual({ run: 1, of: "charge" });
    expect((await send({ path: "/b", method: "PUT", key: "k2" })).json()).toEqual({ run: 2, of: "charge" });
    expect((await send({ path: "/c" })).json()).toEqual({ run: 3 });
    expect((await send({ path: "/c" })).json()).toEqual({ run: 4 });
  });

  test("runs the layer after authentication in any hook", async () => {
    app.decorateRequest("user", "");
    await app.register(idempotency(guard, { scope: ({ user }) => user }));
    await app.register(async (child) => {
      child.addHook("preHandler", async (request) => {
        request.user = "from a hook";
      });
      child.post("/a", async () => ({}));
    });
    const preHandler = async (request: FastifyRequest) => {
      request.user = "from the route";
    };
    app.post("/b", { preHandler }, async () => ({}));
    app.post("/c", { preHandler: [preHandler] }, async () => ({}));
    app.post("/d", async () => ({}));
    const send = await open();
    const statuses: number[] = [];
    for (const path of ["/a", "/b", "/c", "/d"]) statuses.push((await send({ path })).status);
    expect(statuses).toEqual([200, 200, 200, 500]);
    const subject = { operation: "POST /a", key: "k" };
    expect(await guard.read({ ...subject, scope: "from a hook" })).toMatchObject({ state: "completed" });
  });

  test("that was declared before the plugin was loaded is protected too", async () => {
    let runs = 0;
    app.register(idempotency(guard, ANYONE));
    app.post("/charge", async () => ({ run: ++runs }));
    app.post("/b", { config: { idempotency: { operation: "b" } } }, async ({ idempotency: attempt }) => ({
      of: attempt?.operation,
    }));
    const send = await open();
    expect([(await send()).json(), (await send()).json(), runs]).toEqual([{ run: 1 }, { run: 1 }, 1]);
    expect((await send({ body: '{"amount":2}' })).status).toBe(422);
    expect((await send({ path: "/b" })).json()).toEqual({ of: "b" });
  });

  test("inside two registrations is served once, by the inner one", async () => {
    let runs = 0;
    await app.register(idempotency(guard, { ...ANYONE, operation: "outer" }));
    await app.register(async (child) => {
      await child.register(idempotency(guard, { ...ANYONE, operation: "inner" }));
      child.post("/charge", async ({ idempotency: attempt }) => ({ run: ++runs, of: attempt?.operation }));
    });
    app.post("/outer", async ({ idempotency: attempt }) => ({ of: attempt?.operation }));
    const send = await open();
    for (const got of [await send(), await send()]) {
      expect([got.status, got.json()]).toEqual([200, { run: 1, of: "inner" }]);
    }
    expect((await send({ path: "/outer" })).json()).toEqual({ of: "outer" });
  });

  test("that does not exist responds 404 both times, and uses no key", async () => {
    await app.register(idempotency(guard, ANYONE));
    const send = await open();
    const answers = [await send(), await send()];
    expect(answers.map(({ status, header }) => [status, header(REPLAYED)])).toEqual([
      [404, null],
      [404, null],
    ]);
  });

  test("can read its body in any way, and gets it whole", async () => {
    await app.register(idempotency(guard, ANYONE));
    // With listeners alone, as in the documentation of Fastify.
    app.addContentTypeParser("x/listened", (_request, payload, done) => {
      let data = "";
      payload.on("data", (chunk) => {
        data += chunk;
      });
      payload.on("end", () => done(null, data));
    });
    app.addContentTypeParser("x/iterated", async (_request: FastifyRequest, payload: Readable) => {
      let data = "";
      for await (const chunk of payload) data += chunk;
      return data;
    });
    // Like parsers of uploads, which leave the body for the handler.
    app.addContentTypeParser("x/unread", (_request, _payload, done) => done(null));
    app.addContentTypeParser("x/gzip", (_request, payload, done) => {
      let data = "";
      payload.on("data", (chunk) => {
        data += chunk;
      });
      payload.on("end", () => done(null, data));
    });
    app.addHook("preParsing", async (request, _reply, payload) => {
      await new Promise((resolve) => setImmediate(resolve));
      if (request.headers["content-type"] !== "x/gzip") return payload;
      return payload.pipe(new PassThrough()).pipe(
        new Transform({
          transform(chunk, _encoding, done) {
            done(null, gunzipSync(chunk));
          },
        }),
      );
    });
    app.post("/charge", async (request) => {
      let data = "";
      if (request.body === undefined) for await (const chunk of request.raw) data += chunk;
      return { body: request.body ?? data };
    });
    const send = await open();
    const text = '{"a":"grüße"}';
    for (const type of ["application/json", "x/listened", "x/iterated", "x/unread", "x/gzip"]) {
      const body = type === "x/gzip" ? gzipSync(text) : text;
      const chunked = new Blob([body as never]).stream();
      for (const [i, sent] of [body, chunked].entries()) {
        const got = await send({
          body: sent as never,
          headers: { "content-type": type },
          key: `${type} ${i}`,
        });
        const { body: received } = got.json();
        expect([type, typeof received === "string" ? JSON.parse(received) : received]).toEqual([
          type,
          { a: "grüße" },
        ]);
      }
      const again = await send({ body, headers: { "content-type": type }, key: `${type} 0` });
      expect([type, replayedOf(again)]).toEqual([type, "true"]);
      if (type === "x/gzip") continue;
      const other = await send({ body: "[]", headers: { "content-type": type }, key: `${type} 0` });
      expect([type, other.json().code]).toEqual([type, "conflict"]);
    }
  });

  test("refuses a body over the limit, and holds no more than the limit", async () => {
    let runs = 0;
    await app.register(idempotency(guard, { ...ANYONE, maxBodyBytes: 100 }));
    app.addContentTypeParser("x/stream", async (_request: FastifyRequest, payload: Readable) => {
      let size = 0;
      for await (const chunk of payload) size += chunk.length;
      return size;
    });
    app.post("/charge", async () => ({ run: ++runs }));
    const send = await open();
    const headers = { "content-type": "x/stream" };
    const body = Buffer.alloc(200_000);
    expect((await send({ headers, body })).status).toBe(413);
    expect((await send({ headers, body: new Blob([body]).stream() })).status).toBe(413);
    expect(runs).toBe(0);
  });

  test("answers for a failing replay itself, whatever the error handler does", async () => {
    const clock = manualClock();
    const own = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
    let inner: (() => Promise<unknown>) | undefined;
    const replay = current<FastifyRequest>(() => {
      throw new RangeError("no view");
    });
    await app.register(idempotency(own, { ...ANYONE, replay }));
    app.setErrorHandler((error: Error, _request, reply) => reply.code(599).send(`handled ${error.message}`));
    app.post("/charge", async () => {
      if (inner === undefined) return "theirs";
      const sendOther = inner;
      inner = undefined;
      clock.advance(30_000);
      await sendOther();
      return "ours, which is longer";
    });
    const send = await open();
    inner = () => send();
    for (const got of [await send(), await send()]) {
      expect([got.status, JSON.parse(got.text)]).toMatchObject([500, { code: "not-kept", retryable: true }]);
    }
    await own.close();
  });
});

describe("over a socket", () => {
  test("a handler that destroys its response closes the connection, and its key is released", async () => {
    let runs = 0;
    await app.register(idempotency(guard, ANYONE));
    app.post("/charge", (_request, reply) => {
      if (++runs === 1) reply.hijack().raw.destroy();
      else reply.send("ok");
    });
    const send = await served();
    await expect(send()).rejects.toThrow("fetch failed");
    expect((await send()).text).toBe("ok");
  });
});

test("over HTTP/2 a route runs once, and its response is replayed", async () => {
  let runs = 0;
  const app2 = fastify({ http2: true });
  await app2.register(idempotency(guard, ANYONE));
  app2.post("/charge", async ({ body }, reply) => reply.code(201).send({ run: ++runs, body }));
  await app2.listen({ port: 0, host: "127.0.0.1" });
  const session = http2.connect(`http://127.0.0.1:${(app2.server.address() as AddressInfo).port}`);
  const send = async (body: string) => {
    const stream = session.request({
      ":method": "POST",
      ":path": "/charge",
      "content-type": "application/json",
      "idempotency-key": '"k"',
    });
    stream.end(body);
    const [headers] = await once(stream, "response");
    let text = "";
    for await (const chunk of stream) text += chunk;
    return [headers[":status"], headers[REPLAYED], text];
  };
  expect(await send('{"a":1}')).toEqual([201, undefined, '{"run":1,"body":{"a":1}}']);
  expect(await send('{"a":1}')).toEqual([201, "true", '{"run":1,"body":{"a":1}}']);
  expect((await send('{"a":2,"a":1}'))[0]).toBe(422);
  session.close();
  await app2.close();
});

test("a mistake in a route's options is reported when the route is declared", async () => {
  await app.register(idempotency(guard, ANYONE));
  const declare = (given: unknown) =>
    app.post("/x", { config: { idempotency: given as RouteIdempotency } }, async () => ({}));
  expect(() => declare({ requird: true })).toThrow('called "requird"');
  expect(() => declare(true)).toThrow("config.idempotency must be an object of options, or false");
  expect(() => idempotency(guard, {} as typeof ANYONE)).toThrow("scope is missing");
});

declare module "fastify" {
  interface FastifyRequest {
    user: string;
  }
}

test("its types are the app's own", () => {
  app.register(idempotency(guard, { scope: (request) => request.user }));
  app.post("/x", { config: { idempotency: { operation: ({ url }) => url } } }, async (request) => {
    expectTypeOf(request.idempotency).toEqualTypeOf<HttpAttempt | undefined>();
  });
  app.post("/y", { config: { idempotency: false } }, async () => ({}));
  fastify({ http2: true }).register(idempotency(guard, ANYONE));
});
