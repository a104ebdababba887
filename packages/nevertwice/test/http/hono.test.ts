/** The Hono adapter, over real sockets on Hono's server for Node, and without a server as other runtimes call it. */
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { compress } from "hono/compress";
import { cors } from "hono/cors";
import { HTTPException } from "hono/http-exception";
import { requestId } from "hono/request-id";
import { streamSSE } from "hono/streaming";
import { validator } from "hono/validator";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { current } from "../../src/http/current-replay.ts";
import { idempotency } from "../../src/http/hono.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { REPLAYED, REPLAYED_HEADER } from "./replayed-header.ts";

let guard: Guard;
const closing: (() => Promise<unknown>)[] = [];
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
  await guard.close();
});

const ANYONE = { scope: "anyone" } as const;

interface App {
  fetch(request: Request): Response | Promise<Response>;
}
type Send = (
  path: string,
  init?: RequestInit & { key?: string | null; duplex?: "half" },
) => Promise<Response>;

/** Without a server, as other runtimes call the app. */
async function direct(app: App): Promise<Send> {
  return async (path, init) => app.fetch(new Request(`http://shop.example${path}`, keyed(init)));
}

/** On a socket. */
async function served(app: App): Promise<Send> {
  const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }) as Server;
  await once(server, "listening");
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return (path, init) => fetch(`http://127.0.0.1:${port}${path}`, { redirect: "manual", ...keyed(init) });
}

function keyed({ key = "k", headers, ...init }: RequestInit & { key?: string | null } = {}): RequestInit {
  return {
    method: "POST",
    body: '{"amount":1}',
    ...init,
    headers: {
      "content-type": "application/json",
      ...(key !== null && { "idempotency-key": `"${key}"` }),
      ...(headers as object),
    },
  };
}

describe.each([
  ["without a server", direct],
  ["on Hono's server for Node", served],
])("%s, a route", (_, open) => {
  test("is the only one protected if the layer is mounted on it alone", async () => {
    const attempts: (HttpAttempt | undefined)[] = [];
    const app = new Hono();
    app.post("/charge", idempotency(guard, { ...ANYONE, required: true }), (c) => {
      attempts.push(c.get("idempotency"));
      return c.text("charged");
    });
    app.post("/other", (c) => {
      attempts.push(c.get("idempotency"));
      return c.text("other");
    });
    const send = await open(app);
    expect(await (await send("/charge")).text()).toBe("charged");
    expect(await (await send("/other")).text()).toBe("other");
    expect(attempts).toEqual([expect.objectContaining({ key: "k", operation: "POST /charge" }), undefined]);
    const missing = await send("/charge", { headers: { "idempotency-key": "" } });
    expect(missing.status).toBe(400);
  });

  test("inside two layers is served once, by the outer one", async () => {
    let runs = 0;
    const app = new Hono();
    app.use(idempotency(guard, ANYONE));
    app.post("/charge", idempotency(guard, { ...ANYONE, required: true }), (c) => c.text(String(++runs)));
    const send = await open(app);
    for (const response of [await send("/charge"), await send("/charge")]) {
      expect([response.status, await response.text()]).toEqual([200, "1"]);
    }
    const unkeyed = await send("/charge", { key: null });
    expect(unkeyed.status).toBe(400);
  });

  test.each([
    ["json", (c: { req: { json(): Promise<unknown> } }) => c.req.json()],
    ["text", (c: { req: { text(): Promise<string> } }) => c.req.text()],
    ["raw", (c: { req: { raw: Request } }) => c.req.raw.json()],
    ["a copy of raw", (c: { req: { raw: Request } }) => c.req.raw.clone().json()],
    ["a stream", async (c: { req: { raw: Request } }) => new Response(c.req.raw.body).json()],
  ])("can read its body as %s as if it had not been read", async (_how, read) => {
    const app = new Hono();
    app.use(idempotency(guard, ANYONE));
    app.post("/charge", async (c) => c.json({ body: await read(c) }));
    const send = await open(app);
    const chunked = new ReadableStream({
      start(controller) {
        for (const part of ['{"amo', 'unt":', "1}"]) controller.enqueue(Buffer.from(part));
        controller.close();
      },
    });
    for (const init of [{ key: "k1" }, { key: "k2", body: chunked, duplex: "half" } as const]) {
      const { body } = (await (await send("/charge", init)).json()) as { body: unknown };
      expect(typeof body === "string" ? JSON.parse(body) : body).toEqual({ amount: 1 });
    }
  });

  test("IK-06 is not run for another body, with or without a validator in front of the layer", async () => {
    let runs = 0;
    const app = new Hono();
    const json = validator("json", (value) => value);
    app.post("/after", json, idempotency(guard, ANYONE), (c) =>
      c.json({ run: ++runs, body: c.req.valid("json") }),
    );
    app.post("/before", idempotency(guard, ANYONE), json, (c) =>
      c.json({ run: ++runs, body: c.req.valid("json") }),
    );
    const send = await open(app);
    for (const path of ["/after", "/before"]) {
      runs = 0;
      expect(await (await send(path)).json()).toEqual({ run: 1, body: { amount: 1 } });
      expect((await send(path, { body: '{"amount":2}' })).status).toBe(422);
      expect((await send(path, { body: '{ "amount": 1 }' })).headers.get(REPLAYED)).toBe("true");
      expect(runs).toBe(1);
    }
  });

  test("can read its body if a clone of it was read in front of the layer", async () => {
    let runs = 0;
    const app = new Hono();
    app.use(async (c, next) => {
      await c.req.raw.clone().text();
      await next();
    });
    app.post("/charge", idempotency(guard, ANYONE), async (c) =>
      c.json({ run: ++runs, body: await c.req.json() }),
    );
    const send = await open(app);
    for (const response of [await send("/charge"), await send("/charge")]) {
      expect(await response.json()).toEqual({ run: 1, body: { amount: 1 } });
    }
    expect((await send("/charge", { body: "[]" })).status).toBe(422);
  });

  test("accepts a form that was parsed in front of the layer, and refuses one with files", async () => {
    const app = new Hono();
    app.use(async (c, next) => {
      await c.req.formData();
      await next();
    });
    app.post("/charge", idempotency(guard, ANYONE), (c) => c.text("ok"));
    const send = await open(app);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    expect((await send("/charge", { headers, body: "a=1&b=2" })).status).toBe(200);
    expect((await send("/charge", { headers, body: "a=1&b=2" })).headers.get(REPLAYED)).toBe("true");
    expect((await send("/charge", { headers, body: "a=1&b=3" })).status).toBe(422);
    const multipart = '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n';
    const type = { "content-type": "multipart/form-data; boundary=x" };
    const refused = await send("/charge", { key: "k2", headers: type, body: multipart });
    expect([refused.status, await refused.json()]).toMatchObject([500, { code: "options-invalid" }]);
  });

  test("refuses a body that was read without Hono's cache", async () => {
    const app = new Hono();
    app.use(async (c, next) => {
      await c.req.raw.text();
      await next();
    });
    app.post("/charge", idempotency(guard, ANYONE), (c) => c.text("ok"));
    const refused = await (await open(app))("/charge");
    expect([refused.status, await refused.json()]).toMatchObject([500, { code: "options-invalid" }]);
  });

  test("refuses a body over the limit by its Content-Length, by its bytes, and if it was already read", async () => {
    let runs = 0;
    const app = new Hono();
    app.post("/charge", idempotency(guard, { ...ANYONE, maxBodyBytes: 100 }), (c) => c.text(String(++runs)));
    app.use("/read", async (c, next) => {
      await c.req.text();
      await next();
    });
    app.post("/read", idempotency(guard, { ...ANYONE, maxBodyBytes: 100 }), (c) => c.text(String(++runs)));
    const send = await open(app);
    const body = JSON.stringify("x".repeat(100));
    const chunked = new Blob([body]).stream();
    const answers = [
      await send("/charge", { body }),
      await send("/charge", { body: chunked, duplex: "half" }),
      await send("/read", { body }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([413, 413, 413]);
    expect(runs).toBe(0);
  });

  test("IK-17 releases the key after an error that app.onError turns into a failure, and sends that failure", async () => {
    let runs = 0;
    const app = new Hono();
    app.use(idempotency(guard, ANYONE));
    app.post("/charge", () => {
      if (++runs === 1) throw new RangeError("no");
      throw new HTTPException(402, { message: "no money" });
    });
    app.onError((error, c) =>
      error instanceof HTTPException
        ? error.getResponse()
        : c.json({ error: error.message }, 500, { "x-e": "1" }),
    );
    const send = await open(app);
    const first = await send("/charge");
    expect([first.status, await first.json(), first.headers.get("x-e")]).toEqual([500, { error: "no" }, "1"]);
    for (const _ of [1, 2]) {
      const second = await send("/charge");
      expect([second.status, await second.text()]).toEqual([402, "no money"]);
    }
    expect(runs).toBe(2);
  });

  test("is not run if a function in the options rejects, even with undefined", async () => {
    let runs = 0;
    const app = new Hono();
    const scope = (c: Context) => Promise.reject(c.req.header("x-none") ? null : new Error("who?"));
    app.post("/charge", idempotency(guard, { scope }), (c) => c.text(String(++runs)));
    app.onError((error, c) => c.text(error.message, 500));
    const send = await open({
      fetch: async (request) =>
        Promise.resolve(app.fetch(request)).catch(() => new Response("", { status: 500 })),
    });
    expect(await (await send("/charge")).text()).toBe("who?");
    expect((await send("/charge", { headers: { "x-none": "1" } })).status).toBe(500);
    expect(runs).toBe(0);
  });

  test("of events in one piece is not kept, like a stream of events", async () => {
    const app = new Hono();
    app.post("/charge", idempotency(guard, ANYONE), (c) =>
      c.body("data: 1\n\n", 200, { "Content-Type": "text/event-stream" }),
    );
    const send = await open(app);
    expect(await (await send("/charge")).text()).toBe("data: 1\n\n");
    expect(await (await send("/charge")).json()).toMatchObject({ code: "already-done" });
  });

  test("IK-18 passes on a thrown value that is not an Error, and releases the key", async () => {
    let runs = 0;
    const app = new Hono();
    app.post("/charge", idempotency(guard, ANYONE), (c) => {
      if (++runs > 1) return c.text("ok");
      return Promise.reject(null);
    });
    const outer = {
      fetch: async (request: Request) => {
        try {
          return await app.fetch(request);
        } catch (thrown) {
          return new Response(`thrown ${thrown}`, { status: 500 });
        }
      },
    };
    const send = await open(outer);
    expect(await (await send("/charge")).text()).toBe("thrown null");
    expect(await (await send("/charge")).text()).toBe("ok");
  });

  test("that does not exist responds 404 both times, and runs nothing", async () => {
    const app = new Hono();
    app.use(idempotency(guard, ANYONE));
    app.get("/", (c) => c.text("ok"));
    const send = await open(app);
    const answers = [await send("/nowhere"), await send("/nowhere")];
    expect(answers.map(({ status }) => status)).toEqual([404, 404]);
    expect(await answers[1]?.text()).toBe("404 Not Found");
  });

  test.each([
    [
      "c.redirect",
      (c: { redirect(to: string, status: 303): Response }) => c.redirect("https://a.example/", 303),
    ],
    ["Response.redirect", () => Response.redirect("https://a.example/", 303)],
  ])("RP-06 that answers with %s replays it", async (_how, answer) => {
    let runs = 0;
    const app = new Hono();
    app.post("/charge", idempotency(guard, ANYONE), (c) => {
      runs++;
      return answer(c);
    });
    const send = await open(app);
    for (const response of [
      await send("/charge", { headers: { origin: "https://p.example" } }),
      await send("/charge", { headers: { origin: "https://p.example" } }),
    ]) {
      expect([response.status, response.headers.get("location")]).toEqual([303, "https://a.example/"]);
      expect(response.headers.get("access-control-expose-headers")).toBe(`${REPLAYED_HEADER}, Retry-After`);
    }
    expect(runs).toBe(1);
  });

  test("has the headers of outer middleware on replays and refusals too", async () => {
    let requests = 0;
    const app = new Hono();
    app.use(cors({ origin: "https://p.example", exposeHeaders: ["X-Request-Id"] }));
    app.use(requestId({ generator: () => `r${++requests}` }));
    app.use(idempotency(guard, { ...ANYONE, replayHeaders: ["x-mine"] }));
    app.post("/charge", (c) => c.json({ ok: true }, 201, { "x-mine": "1" }));
    const send = await open(app);
    const headers = { origin: "https://p.example" };
    const first = await send("/charge", { headers });
    const again = await send("/charge", { headers });
    const refused = await send("/charge", { headers, body: "[]" });
    expect([first.status, again.status, refused.status]).toEqual([201, 201, 422]);
    expect(again.headers.get("x-mine")).toBe("1");
    expect(refused.headers.get("content-type")).toBe("application/problem+json");
    for (const [i, response] of [first, again, refused].entries()) {
      expect(response.headers.get("access-control-allow-origin")).toBe("https://p.example");
      expect(response.headers.get("access-control-expose-headers")).toBe(
        `X-Request-Id, ${REPLAYED_HEADER}, Retry-After`,
      );
      expect(response.headers.get("x-request-id")).toBe(`r${i + 1}`);
    }
  });

  const READERS: Record<string, (request: Context["req"]) => Promise<string>> = {
    text: (request) => request.text(),
    json: async (request) => JSON.stringify(await request.json()),
    arrayBuffer: async (request) => Buffer.from(await request.arrayBuffer()).toString(),
    blob: async (request) => (await request.blob()).text(),
    parseBody: async (request) => JSON.stringify(await request.parseBody()),
  };

  test.each(Object.entries(READERS))(
    "can be read by outer middleware with %s after a replay and a refusal",
    async (how, readBody) => {
      const read: string[] = [];
      const app = new Hono();
      app.use(async (c, next) => {
        await next();
        read.push(await readBody(c.req));
      });
      app.post("/charge", idempotency(guard, ANYONE), (c) => c.json({ done: true }, 201));
      const send = await open(app);
      const form = { headers: { "content-type": "application/x-www-form-urlencoded" }, body: "amount=1" };
      const init = how === "parseBody" ? form : {};
      const other = how === "parseBody" ? { ...form, body: "amount=2" } : { body: '{"amount":2}' };
      for (const sent of [init, init, init, other]) await (await send("/charge", sent)).text();
      expect(read).toHaveLength(4);
      expect(new Set(read.slice(0, 3)).size).toBe(1);
      expect(read[3]).toBe(read[0]?.replace("1", "2"));
    },
  );

  test("has the same head on every replay, and that of outer middleware", async () => {
    const app = new Hono();
    app.use("/outer/*", async (c, next) => {
      c.header("x-outer", "1");
      await next();
    });
    app.use("/looked-at/*", async (c, next) => {
      await next();
      c.res.clone();
    });
    app.use(idempotency(guard, { ...ANYONE, replayHeaders: ["x-part"] }));
    app.post("/plain", (c) => c.json({ done: true }, 201, { "X-Part": "1" }));
    app.post("/outer/plain", (c) => c.json({ done: true }, 201, { "X-Part": "1" }));
    app.post("/several", (c) => c.json({ done: true }, 201, { "X-Part": ["1", "2"] }));
    app.post("/looked-at/empty", (c) => c.body(null, 204, { "content-type": "text/plain", "X-Part": "1" }));
    const send = await open(app);
    for (const path of ["/plain", "/outer/plain", "/several", "/looked-at/empty"]) {
      const first = await send(path, { key: path });
      const body = await first.text();
      for (const replay of [await send(path, { key: path }), await send(path, { key: path })]) {
        expect(replay.status).toBe(first.status);
        expect(replay.headers.get(REPLAYED_HEADER)).toBe("true");
        expect(await replay.text()).toBe(body);
        for (const name of ["content-type", "content-length", "x-part", "x-outer"])
          expect(replay.headers.get(name)).toBe(first.headers.get(name));
      }
    }
  });

  test("has all lines of a header that the current response gives several times", async () => {
    const app = new Hono();
    const now = () => ({ headers: { "content-type": "text/plain", link: ["</a>", "</b>"] }, body: "now" });
    app.use(idempotency(guard, { ...ANYONE, replay: current<Context>(now) }));
    app.post("/charge", (c) => c.text("first"));
    const send = await open(app);
    await send("/charge");
    expect((await send("/charge")).headers.get("link")).toBe("</a>, </b>");
  });

  test("RP-06 has the same bytes behind and in front of compression", async () => {
    const text = "charged ".repeat(1_000);
    for (const isInside of [true, false]) {
      const app = new Hono();
      if (!isInside) app.use(compress());
      app.use(idempotency(guard, { ...ANYONE, operation: `inside ${isInside}` }));
      if (isInside) app.use(compress());
      app.post("/charge", (c) => c.text(text));
      const send = await open(app);
      for (const response of [
        await send("/charge", { headers: { "accept-encoding": "gzip" } }),
        await send("/charge", { headers: { "accept-encoding": "gzip" } }),
      ]) {
        expect(response.headers.get("content-encoding")).toBe("gzip");
        const bytes = Buffer.from(await response.arrayBuffer());
        // The client of a socket has already unpacked the body.
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        expect(bytes[0] === 0x1f ? await new Response(stream).text() : bytes.toString()).toBe(text);
      }
    }
  });

  test("that streams events is completed before its first event is sent", async () => {
    const app = new Hono();
    const { promise: ending, resolve: end } = deferred();
    app.post("/charge", idempotency(guard, ANYONE), (c) =>
      streamSSE(c, async (stream) => {
        await stream.writeSSE({ data: "one" });
        await ending;
        await stream.writeSSE({ data: "two" });
      }),
    );
    const send = await open(app);
    const first = await send("/charge");
    const reader = (first.body as ReadableStream<Uint8Array>).getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("data: one\n\n");
    expect(await (await send("/charge")).json()).toMatchObject({ code: "already-done" });
    end();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("data: two\n\n");
  });
});

test("its types are the app's own", () => {
  interface AppEnv {
    Variables: { user: { id: string } };
    Bindings: { DATABASE: string };
  }
  const app = new Hono<AppEnv>();
  app.use(idempotency(guard, { scope: (c) => c.get("user").id }));
  app.post(
    "/:id",
    idempotency<AppEnv>(guard, { scope: (c) => c.get("user").id, operation: (c) => c.env.DATABASE }),
    (c) => {
      expectTypeOf(c.get("idempotency")).toEqualTypeOf<HttpAttempt | undefined>();
      expectTypeOf(c.var.idempotency).toEqualTypeOf<HttpAttempt | undefined>();
      expectTypeOf(c.get("user")).toEqualTypeOf<{ id: string }>();
      expectTypeOf(c.req.param("id")).toEqualTypeOf<string>();
      return c.json({ ok: true });
    },
  );
  // @ts-expect-error: there is no such variable.
  idempotency<AppEnv>(guard, { scope: (c) => c.get("person") });
  new Hono().post("/", idempotency(guard, { scope: (c) => c.req.header("x-user") }), (c) => c.text("ok"));
});
