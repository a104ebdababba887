/** Koa 3. */
import { createServer } from "node:http";
import { Readable } from "node:stream";
import Router from "@koa/router";
import Koa, { type Context, type Middleware } from "koa";
import { idempotency } from "../../../src/http/koa.ts";
import type { AdapterHarness, ScriptedAnswer } from "../../../src/testing/adapter-cases.ts";
import { headerOf, headersOf, listening, putBody, putHead, stopping } from "./sockets.ts";

interface Parsed {
  body?: unknown;
}

/** As the parsers of Koa do. */
const parse: Middleware = async (ctx, next) => {
  const chunks: Buffer[] = [];
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const isForm = ctx.is("urlencoded") !== false;
  (ctx.request as Parsed).body = isForm ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
  await next();
};

/** As handlers of Koa answer. */
async function answerIn(ctx: Context, answer: ScriptedAnswer): Promise<void> {
  const { status, reason, body } = answer;
  if (body.kind === "written") {
    ctx.respond = false;
    putHead(ctx.res, answer);
    return putBody(ctx.res, answer);
  }
  ctx.status = status;
  if (reason !== undefined) ctx.message = reason;
  const location = headerOf(answer, "location");
  if (body.kind === "json") ctx.body = body.value;
  else if (body.kind === "text") ctx.body = body.text;
  else if (body.kind === "bytes") ctx.body = Buffer.from(body.bytes);
  else if (body.kind === "stream") ctx.body = Readable.from(body.chunks, { objectMode: false });
  else if (status === 303 && location !== undefined) ctx.redirect(location);
  else {
    ctx.body = status === 200 ? "" : null;
    ctx.status = status;
  }
  for (const [name, values] of headersOf(answer)) ctx.set(name, values);
  return undefined;
}

export const koaHarness: AdapterHarness<Context> = {
  header: (ctx, name) => ctx.get(name) || undefined,
  async serve({ layer, parser, route, handle }) {
    const app = new Koa();
    app.silent = true;
    if (parser === "before") app.use(parse);
    const layers = layer === undefined ? [] : [idempotency<Context>(layer.guard, layer.options)];
    const router = new Router();
    if (route === undefined) for (const mounted of layers) app.use(mounted);
    else app.use(router.routes());
    if (parser === "after") app.use(parse);
    const answering = async (ctx: Context): Promise<void> => {
      const { idempotency: attempt } = ctx.state;
      const seen = parser === "none" ? { stream: () => ctx.req } : { parsed: (ctx.request as Parsed).body };
      await answerIn(ctx, await handle({ method: ctx.method, attempt, ...seen }));
    };
    if (route === undefined) app.use(answering);
    else router.all(route, ...(layers as Middleware[]), answering);
    const server = await listening(createServer(app.callback()));
    return { server, stop: stopping(server) };
  },
};
