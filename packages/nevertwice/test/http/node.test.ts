import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  connect,
  createServer as createServer2,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { idempotency } from "../../src/http/node.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";
import { deferred, exchange, listen, open, parsed, portOf, requestText } from "./wire.ts";

type Handler = (req: IncomingMessage, res: ServerResponse, attempt: HttpAttempt | undefined) => unknown;
type Options = Partial<HttpOptions<IncomingMessage>>;

function guarded(store: Store = memoryStore()): Guard {
  const guard = createGuard({ store, drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

function serving(handler: Handler, options: Options = {}, guard = guarded()): Promise<number> {
  return listen(idempotency(guard, { scope: "anyone", ...options })(handler));
}

const KEY = { "Idempotency-Key": '"key-1"' };
const KEYED = requestText("{}", KEY);

describe("the answer to a request with a key", () => {
  it("IK-01 is the handler's own, with its attempt; without a key there is none", async () => {
    const attempts: unknown[] = [];
    const port = await serving((_req, res, attempt) => {
      attempts.push(attempt && { number: attempt.number, key: attempt.key, operation: attempt.operation });
      res.end("done");
    });
    expect(parsed(await exchange(port, KEYED)).headers).not.toContain(`${REPLAYED_HEADER}: true`);
    await exchange(port, requestText("{}"));
    expect(attempts).toEqual([{ number: 1, key: "key-1", operation: "POST /orders" }, undefined]);
  });

  it("IK-02 is replayed byte for byte, and the handler does not run", async () => {
    let runs = 0;
    const port = await serving((_req, res) => {
      runs++;
      res.setHeader("Location", "/orders/1").writeHead(201, { "Content-Type": "image/png" });
      res.write(Buffer.from([0, 255, 128]));
      res.end(Buffer.from([runs]));
    });
    const first = parsed(await exchange(port, KEYED));
    const second = parsed(await exchange(port, KEYED));
    expect(first).toMatchObject({ line: "HTTP/1.1 201 Created", body: "\u0000\u00ff\u0080\u0001" });
    expect(second).toMatchObject({ line: first.line, body: first.body });
    expect(second.headers).toEqual(
      expect.arrayContaining([
        "location: /orders/1",
        "content-type: image/png",
        `${REPLAYED_HEADER}: true`,
        "Content-Length: 4",
      ]),
    );
    expect(runs).toBe(1);
  });

  it.each([204, 205, 304])("RP-06 of status %i is replayed without a body", async (status) => {
    const port = await serving((_req, res) => res.writeHead(status).end());
    const [first, second] = [parsed(await exchange(port, KEYED)), parsed(await exchange(port, KEYED))];
    expect(second).toMatchObject({ line: first.line, body: "" });
    const length = second.headers.find((line) => /^content-length/i.test(line));
    expect(length).toBe(status === 205 ? "Content-Length: 0" : undefined);
  });

  it("RP-09 that is streamed is sent after its key is completed, and only its head is replayed", async () => {
    let runs = 0;
    const port = await serving((_req, res) => {
      runs++;
      res.setHeader("Content-Type", "text/event-stream");
      Readable.from(["data: 1\n\n", "data: 2\n\n"]).pipe(res);
    });
    expect(parsed(await exchange(port, KEYED)).body).toBe("data: 1\n\ndata: 2\n\n");
    const second = parsed(await exchange(port, KEYED));
    expect(second).toMatchObject({ line: "HTTP/1.1 200 OK", body: "" });
    expect(second.headers).toContain("nevertwice-outcome: not-kept");
    expect(runs).toBe(1);
  });

  it("RP-08 that is too long to keep does not run the handler again", async () => {
    let runs = 0;
    const port = await serving(
      (_req, res) => {
        runs++;
        Readable.from(Array.from({ length: 20 }, () => "x".repeat(1_000))).pipe(res);
      },
      { maxOutcomeBytes: 5_000 },
    );
    expect(parsed(await exchange(port, KEYED)).body).toHaveLength(20_000);
    expect(parsed(await exchange(port, KEYED)).headers).toContain("nevertwice-outcome: not-kept");
    expect(runs).toBe(1);
  });

  it("is sent only after its key is completed", async () => {
    const store = faultyStore(memoryStore());
    const completing = deferred();
    const goOn = deferred();
    const complete = store.complete.bind(store);
    store.complete = async (step) => {
      completing.resolve();
      await goOn.promise;
      return complete(step);
    };
    const port = await serving((_req, res) => res.end("done"), {}, guarded(store));
    const wire = await open(port);
    wire.send(KEYED);
    await completing.promise;
    for (let i = 0; i < 20; i++) await turn();
    expect(wire.text()).toBe("");
    goOn.resolve();
    expect(parsed(await wire.closed()).body).toBe("done");
  });

  it("is replaced if another attempt has taken the key over", async () => {
    const store = memoryStore();
    const lost: Store = { ...store, complete: async () => false };
    const guard = createGuard({
      store: {
        ...lost,
        // Another attempt holds the key by now.
        read: async (id) => {
          const record = await store.read(id);
          return record && { ...record, token: "another", fence: record.fence + 1 };
        },
      },
      drainMs: 0,
    });
    onTestFinished(async () => void (await guard.close()));
    const port = await serving(
      (_req, res) => res.setHeader("Set-Cookie", "a=1").writeHead(201, "Mine").end("mine"),
      {},
      guard,
    );
    const headers = { ...KEY, Connection: "keep-alive" };
    const wire = await open(port);
    wire.send(requestText("{}", headers));
    const answer = parsed(await wire.until((all) => all.endsWith("}")));
    expect(answer.line).toBe("HTTP/1.1 500 Internal Server Error");
    expect(JSON.parse(answer.body)).toMatchObject({ code: "lease-lost", status: 500 });
    expect(answer.headers.join("\n")).not.toMatch(/Set-Cookie|chunked/i);
    wire.send(requestText("{}", { Connection: "close" }));
    expect(parsed((await wire.closed()).slice(answer.body.length)).line).toContain("HTTP/1.1");
  });
});

describe("a request without a key", () => {
  it("reaches the handler unchanged, and so does its response", async () => {
    const seen: unknown[] = [];
    const port = await serving((req, res) => {
      seen.push(Object.hasOwn(res, "write"), Object.hasOwn(res, "end"), req.readableDidRead);
      res.end("done");
    });
    await exchange(port, requestText("{}", KEY, "GET /orders HTTP/1.1"));
    await exchange(port, requestText("{}"));
    expect(seen).toEqual([false, false, false, false, false, false]);
  });

  it("gets the added header lines", async () => {
    const port = await serving((_req, res) =>
      res.writeHead(204, { "Access-Control-Allow-Headers": "content-type" }).end(),
    );
    const preflight = requestText(
      "",
      { Origin: "https://a.example", "Access-Control-Request-Method": "POST" },
      "OPTIONS /orders HTTP/1.1",
    );
    const { headers } = parsed(await exchange(port, preflight));
    expect(headers.filter((line) => /^access-control-allow-headers/i.test(line))).toEqual([
      "Access-Control-Allow-Headers: content-type",
      "Access-Control-Allow-Headers: Idempotency-Key",
    ]);
  });

  it("that the layer refuses never reaches the handler", async () => {
    let runs = 0;
    const port = await serving((_req, res) => res.end(String(++runs)), { required: true, maxBodyBytes: 5 });
    expect(parsed(await exchange(port, requestText("{}"))).line).toBe("HTTP/1.1 400 Bad Request");
    expect(parsed(await exchange(port, requestText("too long", KEY))).line).toBe(
      "HTTP/1.1 413 Payload Too Large",
    );
    expect(runs).toBe(0);
  });
});

describe("a handler that throws", () => {
  const THROWING: Record<string, Handler> = {
    "at once": () => {
      throw new Error("mine");
    },
    "after a while": async () => {
      await turn();
      throw new Error("mine");
    },
    "after it has begun to answer": async (_req, res) => {
      res.writeHead(201).write("half");
      await turn();
      throw new Error("mine");
    },
  };

  it.each(Object.keys(THROWING))(
    "%s releases the key, and Node responds with captureRejections",
    async (name) => {
      let runs = 0;
      const guard = guarded();
      const listener = idempotency(guard, { scope: "anyone" })((req, res, attempt) => {
        runs++;
        return THROWING[name]?.(req, res, attempt);
      });
      EventEmitter.captureRejections = true;
      const server = createServer((req, res) => listener(req, res));
      EventEmitter.captureRejections = false;
      const port = await portOf(server);
      for (const run of [1, 2]) {
        expect(parsed(await exchange(port, KEYED)).line).toBe("HTTP/1.1 500 Internal Server Error");
        expect(runs).toBe(run);
      }
    },
  );

  it("rejects the listener with the same error", async () => {
    const listener = idempotency(guarded(), { scope: "anyone" })(async () => {
      throw new Error("mine");
    });
    const thrown = deferred<unknown>();
    const port = await listen((req, res) => {
      listener(req, res).catch((error: unknown) => {
        thrown.resolve(error);
        res.statusCode = 418;
        res.end("caught");
      });
    });
    expect(parsed(await exchange(port, KEYED))).toMatchObject({
      line: "HTTP/1.1 418 I'm a Teapot",
      body: "caught",
    });
    expect(await thrown.promise).toMatchObject({ message: "mine" });
  });

  it("after it has responded rejects the listener too, and the response is kept", async () => {
    const listener = idempotency(guarded(), { scope: "anyone" })(async (_req, res) => {
      res.end("done");
      await turn();
      throw new Error("too late");
    });
    const thrown = deferred<unknown>();
    const port = await listen((req, res) => void listener(req, res).catch(thrown.resolve));
    expect(parsed(await exchange(port, KEYED)).body).toBe("done");
    expect(await thrown.promise).toMatchObject({ message: "too late" });
    expect(parsed(await exchange(port, KEYED))).toMatchObject({ body: "done" });
  });

  it("rejects the listener without a key, too", async () => {
    const listener = idempotency(guarded(), { scope: "anyone" })(() => {
      throw new Error("mine");
    });
    const thrown = deferred<unknown>();
    const port = await listen((req, res) => {
      listener(req, res).catch(thrown.resolve);
      res.end();
    });
    await exchange(port, requestText("{}"));
    expect(await thrown.promise).toMatchObject({ message: "mine" });
  });
});

describe("a handler that destroys its response", () => {
  it("closes the connection after the key is released, and the next attempt runs", async () => {
    let runs = 0;
    const port = await serving((_req, res) => {
      runs++;
      if (runs > 1) return void res.end("done");
      res.write("half");
      return void res.destroy(new Error("the source failed"));
    });
    expect(await exchange(port, KEYED)).toBe("");
    expect(parsed(await exchange(port, KEYED)).body).toBe("done");
  });
});

describe("a client that disconnects", () => {
  it("before its body is complete claims nothing and runs nothing", async () => {
    let claims = 0;
    let runs = 0;
    const store = memoryStore();
    const claim: Store["claim"] = (step) => {
      claims++;
      return store.claim(step);
    };
    const guard = guarded({ ...store, claim });
    const closed = deferred();
    const listener = idempotency(guard, { scope: "anyone" })(() => runs++);
    const port = await listen((req, res) => void listener(req, res).then(closed.resolve));
    const wire = await open(port);
    wire.send(requestText("", { ...KEY, "Content-Length": "10" }));
    wire.socket.write("half", () => wire.socket.destroy());
    await closed.promise;
    expect([claims, runs]).toEqual([0, 0]);
  });

  it("before its handler has started runs nothing, and its key is released", async () => {
    let runs = 0;
    const store = memoryStore();
    const claiming = deferred();
    const goOn = deferred();
    const guard = guarded({
      ...store,
      claim: async (step) => {
        claiming.resolve();
        await goOn.promise;
        return store.claim(step);
      },
    });
    const listener = idempotency(guard, { scope: "anyone" })((_req, res) => res.end(String(++runs)));
    const left = deferred();
    const over = deferred();
    const port = await listen((req, res) => {
      req.socket.on("close", () => left.resolve());
      void listener(req, res).then(over.resolve);
    });
    const wire = await open(port);
    wire.send(KEYED);
    await claiming.promise;
    wire.socket.destroy();
    await left.promise;
    goOn.resolve();
    await over.promise;
    expect(runs).toBe(0);
    expect(parsed(await exchange(port, KEYED)).body).toBe("1");
  });

  it("IK-20 while its handler runs gets the answer when it retries", async () => {
    let runs = 0;
    const started = deferred();
    const left = deferred();
    const port = await serving(async (req, res) => {
      runs++;
      req.socket.on("close", () => left.resolve());
      started.resolve();
      await left.promise;
      await turn();
      res.writeHead(201, { Location: "/orders/1" }).end("made");
    });
    const wire = await open(port);
    wire.send(KEYED);
    await started.promise;
    wire.socket.destroy();
    await left.promise;
    await expect.poll(async () => parsed(await exchange(port, KEYED)).line).toBe("HTTP/1.1 201 Created");
    const again = parsed(await exchange(port, KEYED));
    expect(again).toMatchObject({ body: "made" });
    expect(again.headers).toContain(`${REPLAYED_HEADER}: true`);
    expect(runs).toBe(1);
  });

  it("while its answer is written gets it when it retries", async () => {
    let runs = 0;
    const port = await serving(
      (_req, res) => {
        runs++;
        Readable.from(Array.from({ length: 400 }, () => Buffer.alloc(65_536, "x"))).pipe(res);
      },
      { maxOutcomeBytes: 1_000 },
    );
    const wire = await open(port);
    wire.send(KEYED);
    await wire.until((all) => all.length > 100_000);
    wire.socket.destroy();
    expect(parsed(await exchange(port, KEYED)).headers).toContain("nevertwice-outcome: not-kept");
    expect(runs).toBe(1);
  });
});

describe("a response that outer code has sent before the handler could start", () => {
  it("is not changed, and nothing is done", async () => {
    let runs = 0;
    const store = memoryStore();
    const claiming = deferred();
    const goOn = deferred();
    const guard = guarded({
      ...store,
      claim: async (step) => {
        claiming.resolve();
        await goOn.promise;
        return store.claim(step);
      },
    });
    const done = deferred();
    const port = await listen(async (req, res) => {
      const served = idempotency(guard, { scope: "anyone" })((_req, inner) => inner.end(String(++runs)))(
        req,
        res,
      );
      if (runs === 0) await claiming.promise;
      if (req.url === "/slow") res.writeHead(503).end("too slow");
      goOn.resolve();
      await served;
      done.resolve();
    });
    const slow = requestText("{}", KEY, "POST /slow HTTP/1.1");
    expect(parsed(await exchange(port, slow))).toMatchObject({ body: "too slow" });
    await done.promise;
    expect(runs).toBe(0);
  });

  it("is not changed, even if the layer has a reply by then", async () => {
    const asked = deferred();
    const goOn = deferred();
    const authorize = async ({ url }: IncomingMessage) => {
      if (url !== "/orders?slow") return true;
      asked.resolve();
      await goOn.promise;
      return false;
    };
    const listener = idempotency(guarded(), { scope: "anyone", authorize })(() => {});
    const served = deferred<unknown>();
    const port = await listen(async (req, res) => {
      listener(req, res).then(() => served.resolve("resolved"), served.resolve);
      await asked.promise;
      res.writeHead(503).end("too slow");
      goOn.resolve();
    });
    const slow = requestText("{}", KEY, "POST /orders?slow HTTP/1.1");
    expect(parsed(await exchange(port, slow))).toMatchObject({ body: "too slow" });
    expect(await served.promise).toBe("resolved");
  });
});

describe("over HTTP/2", () => {
  async function serving2(
    handler: (req: Http2ServerRequest, res: Http2ServerResponse) => unknown,
    onRequest: (req: Http2ServerRequest) => void = () => {},
  ): Promise<ClientHttp2Session> {
    const listener = idempotency<Http2ServerRequest>(guarded(), {
      scope(req) {
        onRequest(req);
        return req.headers["x-user"] as string;
      },
    })(handler);
    const server = createServer2({}, listener);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await once(session, "connect");
    onTestFinished(() => {
      session.destroy();
      server.close();
    });
    return session;
  }

  async function send(session: ClientHttp2Session, body: string) {
    const stream = session.request({
      ":method": "POST",
      ":path": "/orders",
      "x-user": "ada",
      "idempotency-key": '"key-1"',
    });
    stream.end(body);
    const [headers] = await once(stream, "response");
    return { headers, body: await text(stream) };
  }

  it("responds once, and replays the response", async () => {
    let runs = 0;
    const seen: unknown[] = [];
    const session = await serving2(async (req, res) => {
      runs++;
      const body = await text(req);
      res.setHeader("set-cookie", ["a=1", "b=2"]);
      res.writeHead(201, { "x-made": "1" });
      seen.push(res.headersSent, res.writableEnded);
      expect(() => res.setHeader("x-late", "1")).toThrow(/initiated/);
      res.write("you sent ");
      res.end(body);
      seen.push(res.writableEnded);
    });
    const first = await send(session, "{}");
    expect(first).toMatchObject({
      headers: { ":status": 201, "x-made": "1", "set-cookie": ["a=1", "b=2"] },
      body: "you sent {}",
    });
    const second = await send(session, "{}");
    expect(second).toMatchObject({
      headers: { ":status": 201, [REPLAYED]: "true" },
      body: "you sent {}",
    });
    expect(await send(session, "other")).toMatchObject({ headers: { ":status": 422 } });
    expect([runs, ...seen]).toEqual([1, true, false, true]);
  });

  it("sends a stream after its key is completed", async () => {
    const session = await serving2((_req, res) => {
      res.setHeader("content-type", "text/event-stream");
      Readable.from(["data: 1\n\n", "data: 2\n\n"]).pipe(res);
    });
    expect(await send(session, "{}")).toMatchObject({ body: "data: 1\n\ndata: 2\n\n" });
    expect(await send(session, "{}")).toMatchObject({
      headers: { "nevertwice-outcome": "not-kept" },
      body: "",
    });
  });

  it("ignores a client that disconnected before its body was complete", async () => {
    const arrived = deferred<Http2ServerRequest>();
    let runs = 0;
    const session = await serving2((_req, res) => {
      runs++;
      res.end("done");
    }, arrived.resolve);
    const again = connect(`http://127.0.0.1:${session.socket.remotePort}`);
    onTestFinished(() => again.destroy());
    const stream = session.request({ ":method": "POST", "x-user": "ada", "idempotency-key": '"key-1"' });
    stream.on("error", () => {});
    stream.write("half");
    const req = await arrived.promise;
    await turn();
    const closed = once(req.stream, "close");
    session.destroy();
    await closed;
    for (let i = 0; i < 5; i++) await turn();
    expect(runs).toBe(0);
    expect(await send(again, "{}")).toMatchObject({ body: "done" });
  });

  it("keeps the answer for a client that disconnected", async () => {
    let runs = 0;
    const started = deferred();
    const left = deferred();
    const session = await serving2(async (req, res) => {
      runs++;
      req.stream.on("close", () => left.resolve());
      started.resolve();
      await left.promise;
      await turn();
      res.writeHead(201).end("made");
    });
    const stream = session.request({
      ":method": "POST",
      ":path": "/orders",
      "x-user": "ada",
      "idempotency-key": '"key-1"',
    });
    stream.on("error", () => {});
    stream.end("{}");
    await started.promise;
    stream.close(8);
    await left.promise;
    await expect.poll(async () => (await send(session, "{}")).headers[":status"]).toBe(201);
    expect((await send(session, "{}")).body).toBe("made");
    expect(runs).toBe(1);
  });
});

it("is typed by the kind of request that it serves", () => {
  const guard = guarded();
  const plain = idempotency(guard, { scope: (req) => req.headers.authorization });
  expectTypeOf(plain).parameter(0).parameter(0).toEqualTypeOf<IncomingMessage>();
  expectTypeOf(plain).parameter(0).parameter(1).toEqualTypeOf<ServerResponse>();
  const second = idempotency<Http2ServerRequest>(guard, { scope: "anyone" });
  expectTypeOf(second).parameter(0).parameter(1).toEqualTypeOf<Http2ServerResponse>();
});
