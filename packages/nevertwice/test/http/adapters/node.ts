/** Node's own servers, over HTTP/1.1 and HTTP/2. */
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createServer2, type Http2Session } from "node:http2";
import type { HttpAttempt } from "../../../src/http/http-attempt.ts";
import { idempotency } from "../../../src/http/node.ts";
import type { AdapterHarness, ScriptedAnswer, ScriptedApp } from "../../../src/testing/adapter-cases.ts";
import { headersOf, listening, putBody, putHead, seenOn, stopping } from "./sockets.ts";

async function answerOn(res: ServerResponse, answer: ScriptedAnswer): Promise<void> {
  const { status, reason, body } = answer;
  switch (body.kind) {
    case "json": {
      const headers = Object.fromEntries([["Content-Type", "application/json"], ...headersOf(answer)]);
      if (reason === undefined) res.writeHead(status, headers);
      else res.writeHead(status, reason, headers);
      res.end(JSON.stringify(body.value));
      return;
    }
    case "text":
      putHead(res, answer);
      res.end(body.text);
      return;
    case "bytes":
      res.writeHead(status, answer.headers.flat());
      res.end(body.bytes);
      return;
    case "empty":
      putHead(res, answer);
      res.end();
      return;
    default:
      putHead(res, answer);
      await putBody(res, answer);
  }
}

function listenerOf({ layer, handle }: ScriptedApp<IncomingMessage>): RequestListener {
  const handler = async (req: IncomingMessage, res: ServerResponse, attempt?: HttpAttempt): Promise<void> =>
    answerOn(res, await handle(seenOn(req, false, attempt)));
  if (layer !== undefined) return idempotency(layer.guard, layer.options)(handler);
  return handler;
}

/** A server that is created while `captureRejections` is on answers 500 for a listener that rejects. Otherwise the process ends. */
function answeringRejections<S>(create: () => S): S {
  EventEmitter.captureRejections = true;
  const server = create();
  EventEmitter.captureRejections = false;
  return server;
}

const header = (request: IncomingMessage, name: string): string | undefined =>
  request.headersDistinct[name]?.join(", ");

const LACKS = {
  routes: "node:http has no router",
  "parser-before": "node has no parser of bodies",
  "parser-after": "node has no parser of bodies",
} as const;

export const nodeHarness: AdapterHarness<IncomingMessage> = {
  lacks: LACKS,
  header,
  async serve(app) {
    const server = await listening(answeringRejections(() => createServer(listenerOf(app))));
    return { server, stop: stopping(server) };
  },
};

export const http2Harness: AdapterHarness<IncomingMessage> = {
  lacks: {
    ...LACKS,
    reason: "HTTP/2 has no reason phrases",
    "refused-headers": "node does not look at the characters of HTTP/2's header values",
    connections: "an HTTP/2 connection has its requests side by side",
    upgrades: "HTTP/2 has no upgrades",
  },
  header: (request, name) => [request.headers[name] ?? []].flat().join(", ") || undefined,
  async serve(app) {
    // Typed like HTTP/1.1 requests and responses, as in every framework that serves both.
    const listener = listenerOf(app) as unknown as Parameters<typeof createServer2>[1];
    const server = await listening(answeringRejections(() => createServer2({}, listener)));
    const sessions = new Set<Http2Session>();
    server.on("session", (session) => sessions.add(session));
    return {
      server,
      http2: true,
      async stop() {
        const closed = once(server, "close");
        server.close();
        for (const session of sessions) session.destroy();
        await closed;
      },
    };
  },
};
