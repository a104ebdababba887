import { once } from "node:events";
import { constants, type Http2ServerRequest } from "node:http2";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import Koa, { type Context, type Middleware } from "koa";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { idempotency, type KoaContext } from "../../src/http/koa.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { REPLAYED_HEADER } from "./replayed-header.ts";
import { exchange, listen, open, parsed, requestText, session2 } from "./wire.ts";

function guarded(): Guard {
  const guard = createGuard({ store: memoryStore(), drainMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

const layer = (options: Partial<HttpOptions<KoaContext>> = {}) =>
  idempotency(guarded(), { scope: "anyone", ...options });

const JSON_KEY = { "Idempotency-Key": '"key-1"', "Content-Type": "application/json" };
const KEYED = requestText('{"item":"book"}', JSON_KEY);

function appOf(...middleware: Middleware[]): Promise<number> {
  const app = new Koa();
  app.silent = true;
  for (const each of middleware) app.use(each);
  return listen(app.callback());
}

async function twice(port: number, request = KEYED) {
  const first = parsed(await exchange(port, request));
  const second = parsed(await exchange(port, request));
  return { first, second, isReplay: second.headers.includes(`${REPLAYED_HEADER}: true`) };
}

describe("the answer to a request with a key", () => {
  it("is handled by one layer if two are mounted", async () => {
    const mounted = layer();
    const port = await appOf(mounted, mounted, (ctx) => {
      ctx.body = "made";
    });
    const { first, second, isReplay } = await twice(port);
    expect([first.line, second.body, isReplay]).toEqual(["HTTP/1.1 200 OK", "made", true]);
  });

  it("has its attempt in ctx.state, and none without a key", async () => {
    const seen: unknown[] = [];
    const port = await appOf(layer(), (ctx) => {
      seen.push(ctx.state.idempotency?.operation, Object.hasOwn(ctx.res, "end"));
      ctx.body = "ok";
    });
    await exchange(port, KEYED);
    await exchange(port, requestText("{}"));
    expect(seen).toEqual(["POST /orders", true, undefined, false]);
  });

  const WAYS: Record<string, Middleware> = {
    json: (ctx) => {
      ctx.body = { a: 1 };
    },
    text: (ctx) => {
      ctx.body = "text";
    },
    bytes: (ctx) => {
      ctx.body = Buffer.from([0, 255]);
    },
    nothing: (ctx) => {
      ctx.status = 204;
    },
    null: (ctx) => {
      ctx.body = null;
    },
    "no body": (ctx) => {
      ctx.status = 202;
    },
    nowhere: () => {},
    redirect: (ctx) => ctx.redirect("/elsewhere"),
    stream: (ctx) => {
      ctx.body = Readable.from([Buffer.from("one,"), Buffer.from("two")], { objectMode: false });
    },
    cookies: (ctx) => {
      ctx.cookies.set("a", "1");
      ctx.cookies.set("b", "2");
      ctx.body = "text";
    },
    "the response itself": (ctx) => {
      ctx.respond = false;
      ctx.res.writeHead(200, { "X-One": "1" }).end("raw");
    },
    "an error that shows": (ctx) => ctx.throw(409, "taken"),
    "an error": () => {
      throw new Error("hidden");
    },
  };

  it.each(Object.keys(WAYS))("equals that of the bare app: %s", async (way) => {
    const handler = WAYS[way] as Middleware;
    const [bare, held] = await Promise.all([appOf(handler), appOf(layer(), handler)]);
    expect(parsed(await exchange(held, KEYED))).toEqual(parsed(await exchange(bare, KEYED)));
  });

  it.each(["json", "bytes", "nothing", "null", "no body", "redirect", "stream", "the response itself"])(
    "RP-06 is given again: %s",
    async (way) => {
      let runs = 0;
      const port = await appOf(layer(), (ctx, next) => {
        runs++;
        return (WAYS[way] as Middleware)(ctx, next);
      });
      const { first, second, isReplay } = await twice(port);
      expect([second.line, second.body, isReplay, runs]).toEqual([first.line, first.body, true, 1]);
    },
  );

  it("includes the changes of outer middleware, and so does the replay", async () => {
    const outer: Middleware = async (ctx, next) => {
      await next();
      ctx.set("X-Outer", "1");
      if (typeof ctx.body === "string") ctx.body = ctx.body.toUpperCase();
    };
    const port = await appOf(outer, layer(), (ctx) => {
      ctx.body = "done";
    });
    const { first, second } = await twice(port);
    expect([first.body, second.body]).toEqual(["DONE", "DONE"]);
    expect(first.headers).toContain("X-Outer: 1");
  });

  it("is not sent by Koa if the layer sends it", async () => {
    const seen: unknown[] = [];
    const outer: Middleware = async (ctx, next) => {
      await next();
      seen.push([ctx.respond, ctx.status]);
    };
    const port = await appOf(outer, layer(), (ctx) => {
      ctx.status = 201;
      ctx.body = "made";
    });
    await twice(port);
    expect(seen).toEqual([
      [undefined, 201],
      [false, 201],
    ]);
  });

  it("IK-17 with status 500 releases its key, also if outer middleware creates it from an error", async () => {
    let runs = 0;
    const outer: Middleware = async (ctx, next) => {
      try {
        await next();
      } catch (error) {
        ctx.status = 500;
        ctx.body = (error as Error).message;
      }
    };
    const port = await appOf(outer, layer(), () => {
      runs++;
      throw new Error(`run ${runs}`);
    });
    const { first, second } = await twice(port);
    expect([first.body, second.body]).toEqual(["run 1", "run 2"]);
  });

  it("passes on errors of the functions in the options", async () => {
    const scope = () =>
      Promise.reject(Object.assign(new Error("who is this?"), { status: 401, expose: true }));
    const port = await appOf(layer({ scope }), (ctx) => {
      ctx.body = "never";
    });
    expect((await twice(port)).first).toMatchObject({
      line: "HTTP/1.1 401 Unauthorized",
      body: "who is this?",
    });
  });
});

describe("a path that middleware has changed", () => {
  it("still counts as sent", async () => {
    const seen: unknown[] = [];
    const mount: Middleware = async (ctx, next) => {
      ctx.path = "/inner";
      await next();
    };
    const port = await appOf(mount, layer(), (ctx) => {
      seen.push(ctx.state.idempotency?.operation);
      ctx.body = "ok";
    });
    await exchange(port, KEYED);
    expect(seen).toEqual(["POST /orders"]);
  });
});

describe("a client that disconnects", () => {
  const LEAVING: Record<string, (socket: Socket) => void> = {
    "cuts the connection": (socket) => socket.destroy(),
    "resets it": (socket) => socket.resetAndDestroy(),
    "closes its half": (socket) => socket.end(),
  };
  const ANSWERS: Record<string, Middleware> = {
    json: (ctx) => {
      ctx.body = { a: 1 };
    },
    "a stream": (ctx) => {
      ctx.body = Readable.from([Buffer.from('{"a"'), Buffer.from(":1}")], { objectMode: false });
    },
  };
  const cases = Object.keys(LEAVING).flatMap((leave) =>
    Object.keys(ANSWERS).flatMap((way) => [
      [leave, "while the handler runs", way],
      [leave, "while outer middleware runs", way],
    ]),
  );

  it.each(cases)("IK-20 gets its answer when it retries: %s %s, %s", async (leave, when, way) => {
    let runs = 0;
    const started = deferred();
    const left = deferred();
    const waiting = async (ctx: Koa.ParameterizedContext) => {
      ctx.req.socket.on("end", () => left.resolve());
      ctx.req.socket.on("close", () => left.resolve());
      started.resolve();
      await left.promise;
    };
    const outer: Middleware = async (ctx, next) => {
      await next();
      if (when !== "while the handler runs") await waiting(ctx);
    };
    const port = await appOf(outer, layer({ onNotKept: "status" }), async (ctx, next) => {
      runs++;
      if (when === "while the handler runs") await waiting(ctx);
      ctx.status = 201;
      await (ANSWERS[way as string] as Middleware)(ctx, next);
    });
    const wire = await open(port);
    wire.send(KEYED);
    await started.promise;
    LEAVING[leave as string]?.(wire.socket);
    await left.promise;
    await turn();
    // Koa itself stops a stream whose reader has gone.
    const isStopped = when !== "while the handler runs" && way === "a stream";
    await expect
      .poll(async () => parsed(await exchange(port, KEYED)))
      .toMatchObject({ line: "HTTP/1.1 201 Created", ...(isStopped ? {} : { body: '{"a":1}' }) });
    expect(runs).toBe(1);
  });

  it("while its answer is a stream that has not begun learns on retry that the work is done", async () => {
    let runs = 0;
    const started = deferred();
    const port = await appOf(layer({ onNotKept: "status" }), (ctx) => {
      runs++;
      ctx.status = 201;
      ctx.body = new Readable({ read() {} });
      setImmediate(started.resolve);
    });
    const wire = await open(port);
    wire.send(KEYED);
    await started.promise;
    wire.socket.resetAndDestroy();
    await expect
      .poll(async () => parsed(await exchange(port, KEYED)))
      .toMatchObject({ line: "HTTP/1.1 201 Created", body: "" });
    expect(runs).toBe(1);
  });

  it("over HTTP/2, with a connection error, gets its answer when it retries", async () => {
    let runs = 0;
    const started = deferred();
    const left = deferred();
    const app = new Koa();
    app.silent = true;
    app.use(layer());
    app.use(async (ctx) => {
      runs++;
      (ctx.req as unknown as Http2ServerRequest).stream.on("close", () => left.resolve());
      started.resolve();
      await left.promise;
      await turn();
      ctx.status = 201;
      ctx.body = "made";
    });
    const session = await session2(app.callback());
    const send = () => {
      const stream = session.request({ ":method": "POST", "idempotency-key": '"key-1"' });
      stream.on("error", () => {});
      stream.end("{}");
      return stream;
    };
    const first = send();
    await started.promise;
    first.close(constants.NGHTTP2_INTERNAL_ERROR);
    await left.promise;
    const status = async () => (await once(send(), "response"))[0][":status"];
    await expect.poll(status).toBe(201);
    expect(runs).toBe(1);
  });
});

it("is typed as the app's own middleware, with the app's own context", () => {
  interface Own {
    readonly user: { readonly id: string };
  }
  const guard = guarded();
  const app = new Koa();
  app.use(idempotency(guard, { scope: (ctx) => ctx.state.user.id }));
  app.use(idempotency(guard, { scope: (ctx: Context) => ctx.get("x-user") }));
  const own = new Koa<Own>();
  own.use(idempotency(guard, { scope: (ctx: Koa.ParameterizedContext<Own>) => ctx.state.user.id }));
  expectTypeOf(idempotency(guard, { scope: "anyone" })).returns.resolves.toEqualTypeOf<void>();
});

/** As compression middleware of Koa does: outside the layer too, it changes the body before Koa sends it. */
const compressing: Middleware = async (ctx, next) => {
  await next();
  ctx.vary("Accept-Encoding");
  if (typeof ctx.body !== "string" || ctx.acceptsEncodings("gzip", "identity") !== "gzip") return;
  ctx.set("Content-Encoding", "gzip");
  ctx.body = gzipSync(ctx.body);
};

describe("compression", () => {
  it.each(["outside", "inside"])(
    "RP-06 %s the layer sends each client a coding that it can read",
    async (place) => {
      let runs = 0;
      const chain = [compressing, layer()];
      if (place === "inside") chain.reverse();
      const port = await appOf(...chain, (ctx) => {
        runs++;
        ctx.body = "charged ".repeat(100);
      });
      const asked = (codings: Readonly<Record<string, string>>) =>
        exchange(port, requestText("", { ...JSON_KEY, ...codings })).then(parsed);
      const first = await asked({ "Accept-Encoding": "gzip" });
      expect(gunzipSync(Buffer.from(first.body, "latin1")).toString()).toBe("charged ".repeat(100));
      for (const codings of [{ "Accept-Encoding": "identity" }, { "Accept-Encoding": "gzip;q=0" }, {}]) {
        const plain = await asked(codings as Record<string, string>);
        expect(plain.body).toBe("charged ".repeat(100));
        expect(plain.headers.join()).not.toMatch(/content-encoding/i);
        expect(plain.headers.join()).toMatch(/vary: accept-encoding/i);
      }
      expect((await asked({ "Accept-Encoding": "gzip" })).body).toBe(first.body);
      expect(runs).toBe(1);
    },
  );
});
