/** The HTTP application before it has routes: its limits, its log, and what it answers when no route does. */
import { readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, LogController } from "fastify";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import { closeUnread, guardBodies, MAX_BODY_BYTES } from "./bodies.ts";
import type { ServerConfig } from "./config.ts";
import { connectionsFor } from "./descriptors.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import type { Metrics } from "./metrics.ts";
import { ANSWER_HEADERS, problemOf, sendProblem } from "./problems.ts";
import { traceRequests } from "./tracing.ts";

/** Until all of a request has arrived, and until its headers have. */
const REQUEST_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often node looks for requests that are too slow. */
const TIMEOUT_CHECK_MS = 5_000;
/** Longer than the idle timeout of common load balancers (60 s), which would otherwise meet closed connections. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** At once, or fewer if the process may open few files. A connection above this is closed when it is opened. */
const MAX_CONNECTIONS = 4_000;
/** Of all headers and the address together, which bounds the query and its parameters. */
const MAX_HEADER_BYTES = 16_384;
/** Room for the longest name, each of its bytes as three characters. */
const MAX_PARAMETER_LENGTH = 3_072;

export function createApp(config: ServerConfig, metrics: Metrics, gatekeeper: Gatekeeper): FastifyInstance {
  const { tlsCert, tlsKey, logLevel } = config;
  const limits = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  };
  const app = fastify({
    ...(tlsCert === undefined || tlsKey === undefined
      ? { http: limits }
      : { https: { ...limits, cert: readFileSync(tlsCert), key: readFileSync(tlsKey) } }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    forceCloseConnections: "idle",
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    clientErrorHandler: answerUnreadable,
    // What the router refuses reaches no hook of ours, and its own words would repeat the address.
    frameworkErrors: (_error, request, given) => {
      const reply = given as unknown as FastifyReply;
      closeUnread(request, reply);
      sendProblem(
        reply,
        new NevertwiceError("request-invalid", "the address cannot be read, or a part of it is too long."),
      );
    },
    logController: new LogController({ disableRequestLogging: true }),
    // A path may hold a key: logs have the route's pattern, never the address.
    logger: logLevel === "silent" ? false : { level: logLevel, serializers: { req: () => ({}) } },
  }) as unknown as FastifyInstance;
  app.server.maxConnections = connectionsFor(MAX_CONNECTIONS);
  app.addHook("onRequest", async (_request, reply) => {
    reply.headers(ANSWER_HEADERS);
  });
  traceRequests(app);
  checkAddresses(app, gatekeeper);
  guardBodies(app);
  logAnswers(app, metrics, gatekeeper);
  answerErrors(app);
  return app;
}

function checkAddresses(app: FastifyInstance, gatekeeper: Gatekeeper): void {
  app.addHook("onRequest", async (request, reply) => {
    try {
      gatekeeper.checkAddress(request.raw);
    } catch (error) {
      if (isNevertwiceError(error)) return sendProblem(reply, error);
      throw error;
    }
  });
}

function logAnswers(app: FastifyInstance, metrics: Metrics, gatekeeper: Gatekeeper): void {
  app.addHook("onResponse", async (request, reply) => {
    const { method, raw } = request;
    const { statusCode: status, elapsedTime } = reply;
    const route = request.routeOptions.url ?? "none";
    const namespace = gatekeeper.knownCaller(raw)?.namespace;
    metrics.request({ namespace, route, method, status, seconds: elapsedTime / 1_000 });
    request.log.info({ route, method, status, ms: Math.round(elapsedTime) });
  });
}

function answerErrors(app: FastifyInstance): void {
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (isNevertwiceError(error)) return sendProblem(reply, error);
    const { statusCode = 500, message } = error;
    if (statusCode === 413) {
      const most = request.routeOptions.bodyLimit;
      return sendProblem(reply, new NevertwiceError("body-too-large", `the body is over ${most} bytes.`));
    }
    if (statusCode < 500) return sendProblem(reply, new NevertwiceError("request-invalid", message));
    request.log.error({ err: error }, "a request failed");
    return sendProblem(reply, new NevertwiceError("internal-error", "the server failed; its log says more."));
  });
}

const UNREADABLE: Readonly<Record<string, { readonly status: number; readonly error: NevertwiceError }>> = {
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    error: new NevertwiceError("request-timeout", "the request did not arrive in time."),
  },
  HPE_HEADER_OVERFLOW: {
    status: 431,
    error: new NevertwiceError("request-invalid", `the headers are over ${MAX_HEADER_BYTES} bytes.`),
  },
};
const NO_HTTP = {
  status: 400,
  error: new NevertwiceError("request-invalid", "the request is not valid HTTP."),
};

/** What node cannot read as a request has no reply: it is answered on the socket, and no more is read from that. */
function answerUnreadable({ code }: Error & { readonly code: string }, socket: Socket): void {
  if (code === "ECONNRESET" || socket.destroyed) return;
  const { status, error } = UNREADABLE[code] ?? NO_HTTP;
  const { headers, body } = problemOf(error, { status });
  const lines = Object.entries({
    ...headers,
    "content-length": Buffer.byteLength(body),
    connection: "close",
  });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
  ];
  if (socket.writable) socket.write([...head, "", body].join("\r\n"));
  socket.destroySoon();
}
