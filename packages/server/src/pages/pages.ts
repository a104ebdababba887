/** Serves the dashboard, the pages that explain error codes, and the session routes. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ERROR_CODES, NevertwiceError } from "nevertwice";
import type { Context } from "../context.ts";
import type { Gatekeeper } from "../gatekeeper.ts";
import { sendProblem } from "../problems.ts";
import type { Sessions } from "../sessions.ts";
import { type Asset, type Dashboard, readDashboard } from "./assets.ts";
import { DASHBOARD_PAGES } from "./dashboard-pages.ts";
import { registerSession } from "./session.ts";

export interface PagesParts {
  readonly context: Context;
  readonly gatekeeper: Gatekeeper;
  readonly sessions: Sessions;
}

/** Allows only files of this server, and forbids other pages to frame the dashboard. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HEADERS = {
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** For files whose names change with their content. */
const IMMUTABLE = "public, max-age=31536000, immutable";

export function registerPages(app: FastifyInstance, parts: PagesParts): void {
  registerSession(app, parts);
  const dashboard = readDashboard();
  for (const { path } of DASHBOARD_PAGES)
    app.get(path, (request, reply) => sendPage(request, reply, dashboard));
  app.get<{ Params: { readonly code: string } }>("/errors/:code", (request, reply) => {
    if (Object.hasOwn(ERROR_CODES, request.params.code)) return sendPage(request, reply, dashboard);
    return sendNotFound(request, reply, dashboard, "no error has this code.");
  });
  app.get<{ Params: { readonly name: string } }>("/assets/:name", (request, reply) => {
    const asset = dashboard?.files.get(request.params.name);
    if (asset === undefined)
      return sendProblem(reply, new NevertwiceError("not-found", "the dashboard does not have this file."));
    return send(request, reply.header("cache-control", IMMUTABLE), asset);
  });
  app.setNotFoundHandler((request, reply) =>
    sendNotFound(request, reply, dashboard, "this address does not exist; /openapi.json lists all routes."),
  );
}

/** Sends a page to browsers, and a problem document to other clients. */
function sendNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  dashboard: Dashboard | undefined,
  message: string,
): FastifyReply {
  const isBrowser =
    ["GET", "HEAD"].includes(request.method) && /\btext\/html\b/.test(request.headers.accept ?? "");
  if (isBrowser && dashboard !== undefined) return sendPage(request, reply.code(404), dashboard);
  return sendProblem(reply, new NevertwiceError("not-found", message));
}

function sendPage(
  request: FastifyRequest,
  reply: FastifyReply,
  dashboard: Dashboard | undefined,
): FastifyReply {
  if (dashboard !== undefined)
    return send(request, reply.header("cache-control", "no-cache"), dashboard.page);
  return sendProblem(
    reply,
    new NevertwiceError("not-supported", "the dashboard is not built; run `npm run build`."),
  );
}

function send(request: FastifyRequest, reply: FastifyReply, { type, bytes, ...asset }: Asset): FastifyReply {
  reply.headers({ ...HEADERS, "content-type": type, vary: "accept-encoding" });
  const takesGzip = /\bgzip\b/.test(String(request.headers["accept-encoding"] ?? ""));
  const gzipped = takesGzip ? asset.gzipped() : undefined;
  if (gzipped === undefined) return reply.send(bytes);
  return reply.header("content-encoding", "gzip").send(gzipped);
}
