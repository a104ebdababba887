/** Tests on every router that spellings of one resource have one identity, and that two resources never share one. */
import { createServer, type RequestListener, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import Router from "@koa/router";
import express, { type Request, type RequestHandler, type Response } from "express";
import createFastify from "fastify";
import { type Context, Hono } from "hono";
import Koa from "koa";
import { describe, expect, onTestFinished, test } from "vitest";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { idempotency as onExpress } from "../../src/http/express.ts";
import { idempotency as onFastify } from "../../src/http/fastify.ts";
import { idempotency as onHono } from "../../src/http/hono.ts";
import { idempotency as onKoa } from "../../src/http/koa.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type Asking, expectOneIdentityEach, post, ROUTES } from "./spelled-paths.ts";

const SEEDS = [1, 2];
const PATHS = 100;

interface Options {
  readonly scope: "anyone";
  readonly operation?: string;
}

type Create = (guard: Guard, options: Options) => RequestListener | Promise<RequestListener>;

let runs = 0;
const told = (route: string, params: unknown) => ({ route, params, run: ++runs });

function onExpressOf(create: typeof express, wildcard: string): Create {
  return (guard, options) => {
    // Otherwise Express prints every path that it cannot decode.
    const app = create().set("env", "test");
    for (const route of ROUTES) {
      const answer: RequestHandler = (req: Request, res: Response) => {
        res.status(201).json(told(route, req.params));
      };
      app.post(route.replace("*", wildcard), onExpress(guard, options), answer);
    }
    return app;
  };
}

const ROUTERS: Readonly<Record<string, Create>> = {
  "Express 5": onExpressOf(express, "*rest"),
  "Express 4": onExpressOf(createRequire(import.meta.url)("express4") as typeof express, "*"),
  async Fastify(guard, options) {
    const routerOptions = { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true };
    const app = createFastify({ routerOptions });
    await app.register(onFastify(guard, options));
    for (const route of ROUTES)
      app.post(route, async (request, reply) => reply.code(201).send(told(route, request.params)));
    await app.ready();
    return (req, res) => app.routing(req, res);
  },
  Koa(guard, options) {
    const app = new Koa();
    const router = new Router();
    for (const route of ROUTES)
      router.post(route.replace("*", "{*rest}"), onKoa(guard, options), (ctx) => {
        ctx.status = 201;
        ctx.body = told(route, ctx.params);
      });
    return app.use(router.routes()).callback();
  },
  Hono(guard, options) {
    const app = new Hono({ strict: false });
    for (const route of ROUTES)
      app.post(route, onHono(guard, options), (c: Context) => {
        const rest = route.endsWith("*") ? new URL(c.req.url).pathname.split("/").slice(2) : undefined;
        return c.json(told(route, { ...c.req.param(), rest }), 201);
      });
    return getRequestListener(app.fetch);
  },
};

async function listening(listener: RequestListener): Promise<number> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

describe.each(Object.entries(ROUTERS))("random paths on %s", (_name, create) => {
  test.each(SEEDS)("have one identity for each resource (seed %i)", async (seed) => {
    const guard = createGuard({ store: memoryStore(), namespace: "paths", purgeEveryMs: 0 });
    onTestFinished(async () => void (await guard.close()));
    const byPath = await listening(await create(guard, { scope: "anyone" }));
    const byName = await listening(await create(guard, { scope: "anyone", operation: "pay" }));
    const ask: Asking = (path, how) => post(how?.named ? byName : byPath, path, how?.key);
    await expectOneIdentityEach(ask, { seed, count: PATHS });
  });
});

test("a layer that ignored the pattern, or folded values, would fail", async () => {
  const answers = (identity: (path: string) => string): Asking => {
    const kept = new Map<string, { status: number; text: string }>();
    const named = new Map<string, string>();
    return async (path, how) => {
      const [, route = "", id = ""] = path.toLowerCase().split(/\/+/);
      const status = route === "payments" && path.split(/\/+/).length < 4 ? 201 : 404;
      const made = { status, text: JSON.stringify({ route, params: path.split("/")[2] ?? id }) };
      if (how === undefined || status === 404) return made;
      if (how.named) {
        const first = named.get(how.key) ?? identity(path);
        named.set(how.key, first);
        return first === identity(path) ? made : { status: 422, text: "" };
      }
      const stored = kept.get(identity(path)) ?? made;
      kept.set(identity(path), stored);
      return stored;
    };
  };
  const run = { seed: 1, count: PATHS };
  const asSent = answers((path) => path);
  await expect(expectOneIdentityEach(asSent, run)).rejects.toThrow(/seed 1/);
  const inLowerCase = answers((path) => path.toLowerCase());
  await expect(expectOneIdentityEach(inLowerCase, run)).rejects.toThrow(/seed 1/);
});
