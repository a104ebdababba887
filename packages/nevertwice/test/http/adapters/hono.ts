/** Hono, on node's server and called directly. */

import type { Server } from "node:http";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { stream } from "hono/streaming";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { idempotency } from "../../../src/http/hono.ts";
import type { AdapterHarness, ScriptedAnswer, ScriptedApp } from "../../../src/testing/adapter-cases.ts";
import { headerOf, listening, stopping } from "./sockets.ts";
import { fromResponse, toRequest } from "./web.ts";

/** As handlers of Hono answer. */
function answerIn(c: Context, answer: ScriptedAnswer): Response {
  const { body, headers } = answer;
  const status = answer.status as ContentfulStatusCode;
  for (const [name, value] of headers) c.header(name, value, { append: true });
  const location = headerOf(answer, "location");
  switch (body.kind) {
    case "json":
      return c.json(body.value, status);
    case "text":
      return c.body(body.text, status);
    case "bytes":
      return c.body(body.bytes as Uint8Array<ArrayBuffer>, status);
    case "empty":
      return answer.status === 303 && location !== undefined
        ? c.redirect(location, 303)
        : c.body(null, status);
    case "stream":
      return c.body(ReadableStream.from(body.chunks) as ReadableStream, status);
    case "written":
      c.status(status);
      return stream(c, async (out) => {
        for await (const chunk of body.chunks) await out.write(chunk);
      });
  }
}

async function* emptyBody(): AsyncGenerator<Uint8Array> {}

function appOf({ layer, parser, route, handle }: ScriptedApp<Context>): Hono {
  const app = new Hono({ strict: false });
  const parsed = (c: Context): Promise<unknown> =>
    c.req.header("content-type") === "application/json" ? c.req.json() : c.req.parseBody();
  if (parser === "before")
    app.use(async (c, next) => {
      await parsed(c);
      await next();
    });
  if (layer !== undefined) {
    const mounted = idempotency(layer.guard, layer.options);
    if (route === undefined) app.use(mounted);
    else app.all(route, mounted);
  }
  app.all(route ?? "*", async (c) => {
    const { method } = c.req;
    const attempt = c.get("idempotency");
    const seen =
      parser === "none" ? { stream: () => c.req.raw.body ?? emptyBody() } : { parsed: await parsed(c) };
    return answerIn(c, await handle({ method, attempt, ...seen }));
  });
  app.onError((error, c) => c.json({ error: error.message }, 500));
  return app;
}

const LACKS = {
  "header-lines": "a Request has its header lines joined",
  flush: "a Response has no head apart from itself",
  trailers: "a Response has no trailers",
  reason: "Hono's server does not send a Response's statusText",
} as const;

const header = (c: Context, name: string): string | undefined => c.req.header(name);

export const honoHarness: AdapterHarness<Context> = {
  lacks: LACKS,
  header,
  async serve(app) {
    const server = createAdaptorServer({ fetch: appOf(app).fetch }) as Server;
    await listening(server);
    return { server, stop: stopping(server) };
  },
};

export const honoRequestHarness: AdapterHarness<Context> = {
  lacks: {
    ...LACKS,
    connections: "there is no connection, only app.request",
    upgrades: "there is no server, only app.request",
  },
  header,
  serve(app) {
    const hono = appOf(app);
    return {
      send: async (sent) => fromResponse(await hono.request(toRequest(sent))),
      stop() {},
    };
  },
};
