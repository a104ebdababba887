/** The HTTP application without its routes: limits, log, and the answers to requests that no route can handle. */
import { readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, LogController } from "fastify";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { AddressCheck } from "./address-check.ts";
import { closeUnread, guardBodies, MAX_BODY_BYTES } from "./bodies.ts";
import type { ServerConfig } from "./config.ts";
import { connectionLimit } from "./connection-limit.ts";
import type { Departure } from "./departure.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import { KEEP_ALIVE_TIMEOUT_MS } from "./keep-alive-timeout.ts";
import type { Metrics } from "./metrics.ts";
import { ANSWER_HEADERS, sendProblem, toProblemResponse } from "./problems.ts";
import { traceRequests } from "./tracing.ts";

/** How long a client may take to send a whole request, and to send its headers. */
const REQUEST_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often node checks for requests that are too slow. */
const TIMEOUT_CHECK_MS = 5_000;
/** Open connections at once; fewer if the process may open few files. Further connections are closed immediately. */
const MAX_CONNECTIONS = 4_000;
/** The size of all headers and the address together, which also bounds the query. */
const MAX_HEADER_BYTES = 16_384;
/** Room for the longest name (1,024 bytes), each byte escaped as three characters. */
const MAX_PARAMETER_LENGTH = 3_072;

export interface AppParts {
  readonly metrics: Metrics;
  readonly gatekeeper: Gatekeeper;
  readonly checkAddress: AddressCheck;
  readonly departure: Departure;
}

export function createApp(config: ServerConfig, parts: AppParts): FastifyInstance {
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
    // A request that arrives on an open connection while the server stops is answered like any other.
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    clientErrorHandler: answerUnreadable,
    // Requests that the router refuses skip all hooks, and its own message would repeat the address.
    frameworkErrors: (_error, request, given) => {
      const reply = given as unknown as FastifyReply;
      closeUnread(request, reply);
      sendProblem(
        reply,
        new NevertwiceError("request-invalid", "the address is malformed, or a part of it is too long."),
      );
    },
    logController: new LogController({ disableRequestLogging: true }),
    // A path may contain a key, so logs have the pattern of the route, never the address.
    logger: logLevel === "silent" ? false : { level: logLevel, serializers: { req: () => ({}) } },
  }) as unknown as FastifyInstance;
  app.server.maxConnections = connectionLimit(MAX_CONNECTIONS);
  app.addHook("onRequest", async (_request, reply) => {
    reply.headers(ANSWER_HEADERS);
  });
  endConnections(app, parts.departure);
  traceRequests(app);
  checkAddresses(app, parts.checkAddress);
  guardBodies(app);
  logAnswers(app, parts);
  answerErrors(app);
  return app;
}

/** Fastify does this for requests that begin after `close`; a running one would leave its connection open. */
function endConnections(app: FastifyInstance, departure: Departure): void {
  app.addHook("onSend", async (_request, reply) => {
    if (departure.isLeaving) reply.header("connection", "close");
  });
}

function checkAddresses(app: FastifyInstance, checkAddress: AddressCheck): void {
  app.addHook("onRequest", async (request, reply) => {
    try {
      checkAddress(request.raw);
    } catch (error) {
      if (isNevertwiceError(error)) return sendProblem(reply, error);
      throw error;
    }
  });
}

function logAnswers(app: FastifyInstance, { metrics, gatekeeper }: AppParts): void {
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
    return sendProblem(reply, new NevertwiceError("internal-error", "the server failed; see its log."));
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

/** Node gives no reply object for a request that it cannot parse: the answer goes to the socket, which is then closed. */
function answerUnreadable({ code }: Error & { readonly code: string }, socket: Socket): void {
  if (code === "ECONNRESET" || socket.destroyed) return;
  const { status, error } = UNREADABLE[code] ?? NO_HTTP;
  const { headers, body } = toProblemResponse(error, { status });
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
