/** Fastify 5, over sockets. */
import { Readable } from "node:stream";
import createFastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { idempotency } from "../../../src/http/fastify.ts";
import type { AdapterHarness, ScriptedAnswer, ScriptedApp } from "../../../src/testing/adapter-cases.ts";
import { headerOf, headersOf, putBody, putHead } from "./sockets.ts";

/** As handlers of Fastify answer. */
async function answerBy(reply: FastifyReply, answer: ScriptedAnswer): Promise<unknown> {
  const { status, reason, body } = answer;
  if (body.kind === "written") {
    reply.hijack();
    putHead(reply.raw, answer);
    await putBody(reply.raw, answer);
    return reply;
  }
  reply.code(status);
  if (reason !== undefined) reply.raw.statusMessage = reason;
  for (const [name, values] of headersOf(answer)) reply.header(name, values);
  const location = headerOf(answer, "location");
  switch (body.kind) {
    case "json":
      return reply.send(body.value);
    case "text":
      return reply.send(body.text);
    case "bytes":
      return reply.send(Buffer.from(body.bytes));
    case "empty":
      return status === 303 && location !== undefined ? reply.redirect(location, 303) : reply.send();
    case "stream":
      return reply.send(Readable.from(body.chunks, { objectMode: false }));
  }
}

async function appOf({
  layer,
  parser,
  route,
  handle,
}: ScriptedApp<FastifyRequest>): Promise<FastifyInstance> {
  const app = createFastify({
    forceCloseConnections: true,
    routerOptions: { caseSensitive: false, ignoreTrailingSlash: true },
  });
  if (parser === "none") {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
  } else {
    app.addContentTypeParser(
      "application/x-www-form-urlencoded",
      { parseAs: "string" },
      (_request, text, done) => done(null, Object.fromEntries(new URLSearchParams(text as string))),
    );
  }
  if (layer !== undefined) await app.register(idempotency(layer.guard, layer.options));
  app.all(route ?? "/*", async (request, reply) => {
    const { method, body, idempotency: attempt } = request;
    const seen = parser === "none" ? { stream: () => (body ?? request.raw) as Readable } : { parsed: body };
    return answerBy(reply, await handle({ method, attempt, ...seen }));
  });
  return app;
}

const LACKS = {
  "parser-after": "Fastify parses before its handlers and most of its hooks",
} as const;

export const fastifyHarness: AdapterHarness<FastifyRequest> = {
  lacks: LACKS,
  header: (request, name) => [request.headers[name] ?? []].flat().join(", ") || undefined,
  async serve(scripted) {
    const app = await appOf(scripted);
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { server: app.server, stop: () => app.close() };
  },
};
