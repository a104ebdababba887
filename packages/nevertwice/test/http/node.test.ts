import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { ClientHttp2Session, Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { idempotency } from "../../src/http/node.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";
import { exchange, listen, open, parsed, portOf, requestText, session2 } from "./wire.ts";

type Handler = (req: IncomingMessage, res: ServerResponse, attempt: HttpAttempt | undefined) => unknown;
type Options = Partial<HttpOptions<IncomingMessage>>;

function guarded(store: Store = memoryStore()): Guard {
  const guard = createGuard({ store, drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

/** A guard whose store reports a claim, and waits before it decides. */
function guardedSlowly() {
  const store = memoryStore();
  const [claiming, goOn] = [deferred(), deferred()];
  const claim: Store["claim"] = async (step) => {
    claiming.resolve();
    await goOn.promise;
    return store.claim(step);
  };
  return { guard: guarded({ ...store, claim }), claiming, goOn };
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

  it.each([204, 205, 304])("RP-06 of status %i is replayed without a body", async (status) => {
    const port = await serving((_req, res) => res.writeHead(status).end());
    const [first, second] = [parsed(await exchange(port, KEYED)), parsed(await exchange(port, KEYED))];
    expect(second).toMatchObject({ line: first.line, body: "" });
    const length = second.headers.find((line) => /^content-length/i.test(line));
    expect(length).toBe(status === 205 ? "Content-Length: 0" : undefined);
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
  it("before its handler has started runs nothing, and its key is released", async () => {
    let runs = 0;
    const { guard, claiming, goOn } = guardedSlowly();
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
});

describe("a response that outer code has sent before the handler could start", () => {
  it("is not changed, and nothing is done", async () => {
    let runs = 0;
    const { guard, claiming, goOn } = guardedSlowly();
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
  const serving2 = (handler: (req: Http2ServerRequest, res: Http2ServerResponse) => unknown) =>
    session2(
      idempotency<Http2ServerRequest>(guarded(), { scope: (req) => req.headers["x-user"] as string })(
        handler,
      ),
    );

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
});

it("is typed by the kind of request that it serves", () => {
  const guard = guarded();
  const plain = idempotency(guard, { scope: (req) => req.headers.authorization });
  expectTypeOf(plain).parameter(0).parameter(0).toEqualTypeOf<IncomingMessage>();
  expectTypeOf(plain).parameter(0).parameter(1).toEqualTypeOf<ServerResponse>();
  const second = idempotency<Http2ServerRequest>(guard, { scope: "anyone" });
  expectTypeOf(second).parameter(0).parameter(1).toEqualTypeOf<Http2ServerResponse>();
});
