/**
 * The ready service: HTTP API, dashboard, health and figures on one address, and the gateway on another. Nothing about
 * a claim, a hold or a session is kept in it, so any number of them on one store behave as one.
 */
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, LogController } from "fastify";
import { isNevertwiceError, NevertwiceError, type Store } from "nevertwice";
import { createReservations, type ReservationStore } from "nevertwice/reservations";
import { openReservations } from "nevertwice/reservations/open";
import { openStore } from "nevertwice/stores/open";
import { createAccess } from "./access.ts";
import { auditRoutes } from "./api/audit.ts";
import { claimsRoutes } from "./api/claims.ts";
import { eventsRoutes } from "./api/events.ts";
import { holdsRoutes } from "./api/holds.ts";
import { keysRoutes } from "./api/keys.ts";
import { liveRoutes } from "./api/live.ts";
import { policyRoutes } from "./api/policy.ts";
import { registerRoutes } from "./api/register.ts";
import type { Route } from "./api/route.ts";
import { configOf, type ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { type Context, createContext } from "./context.ts";
import { createGatekeeper, isLoopback } from "./gatekeeper.ts";
import { createGateway } from "./gateway.ts";
import { createLive } from "./live.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { openapiOf } from "./openapi.ts";
import { registerPages } from "./pages/pages.ts";
import { sendProblem } from "./problems.ts";
import { createSessions } from "./sessions.ts";
import type { Address } from "./settings.ts";
import { telemetryObservers, traceRequests } from "./tracing.ts";
import { VERSION } from "./version.ts";

export interface NevertwiceServer {
  /** Where the API and the dashboard are, and the gateway if there is one. Refuses what would be open to strangers. */
  listen(): Promise<{ readonly url: string; readonly gatewayUrl: string | undefined }>;
  /** Takes nothing new, waits for what runs, and closes the stores that it opened. */
  close(): Promise<void>;
  /** The HTTP application, for requests without a socket. */
  readonly app: FastifyInstance;
  readonly context: Context;
  readonly routes: readonly Route[];
}

/** A body beyond this is refused before it is read. */
const MAX_BODY_BYTES = 1_500_000;
const SLOW_REQUEST_MS = 30_000;
/** Room for the longest name, each of its bytes as three characters. */
const MAX_PARAMETER_LENGTH = 3_072;

export async function createServer(given: Partial<ServerConfig> = {}): Promise<NevertwiceServer> {
  const config = configOf(given);
  const stores = await openStores(config);
  try {
    return serverOn(stores, config);
  } catch (error) {
    await closeStores(stores);
    throw error;
  }
}

function serverOn(stores: Stores, config: ServerConfig): NevertwiceServer {
  const metrics = createMetrics();
  const context = contextOf(config, stores, metrics);
  const isSecure = config.tlsCert !== undefined;
  const sessions = createSessions({ store: stores.records, access: context.access, isSecure });
  const gatekeeper = createGatekeeper({
    access: context.access,
    sessions,
    namespace: config.namespace,
    hosts: [config.listen.host, ...config.allowHost],
  });
  const app = createApp(config, metrics);
  traceRequests(app);
  app.addHook("onRequest", async (request, reply) => {
    try {
      gatekeeper.checkAddress(request.raw);
    } catch (error) {
      if (isNevertwiceError(error)) return sendProblem(reply, error);
      throw error;
    }
  });
  const routes = [
    ...claimsRoutes(context),
    ...eventsRoutes(context),
    ...keysRoutes(context),
    ...holdsRoutes(context),
    ...auditRoutes(context),
    ...policyRoutes(context),
    ...liveRoutes(context),
  ];
  registerRoutes(app, routes, gatekeeper);
  registerHealth(app, context, metrics, gatekeeper);
  app.get("/openapi.json", async () => openapiOf(routes, VERSION));
  registerPages(app, { context, gatekeeper, sessions });
  const gateway = config.upstream === undefined ? undefined : createGateway(config, context);

  return {
    app,
    context,
    routes,
    async listen() {
      await checkOpenness(config, context);
      const url = await app.listen({ ...config.listen });
      if (gateway === undefined) return { url, gatewayUrl: undefined };
      for (const warning of gateway.warnings) app.log.warn(warning);
      return { url, gatewayUrl: await listening(gateway.server, config.gatewayListen, isSecure) };
    },
    async close() {
      await Promise.all([app.close(), gateway?.close()]);
      await context.close();
      await closeStores(stores);
    },
  };
}

interface Stores {
  readonly records: Store;
  readonly holds: ReservationStore | undefined;
}

/** Stores of records that can also keep holds. */
const KEEPS_HOLDS = /^(memory|sqlite|postgres|postgresql|mysql):/;

async function openStores({ store, holdsStore }: ServerConfig): Promise<Stores> {
  const records = await openStore(store);
  const holdsUrl = holdsStore ?? (KEEPS_HOLDS.test(store) ? store : undefined);
  if (holdsUrl === undefined) return { records, holds: undefined };
  try {
    return { records, holds: await openReservations(holdsUrl) };
  } catch (error) {
    await records.close();
    throw error;
  }
}

async function closeStores({ records, holds }: Stores): Promise<void> {
  await Promise.all([records.close(), holds?.close()]);
}

function contextOf(config: ServerConfig, { records, holds }: Stores, metrics: Metrics): Context {
  const { namespace, accessToken: fixed, holdsWindow: windowMs } = config;
  return createContext({
    settings: config,
    store: records,
    access: createAccess({ store: records, namespace, fixed, isReachable: isReachable(config) }),
    live: createLive(),
    observers: [metrics.observe, ...telemetryObservers()],
    holdsOf:
      holds &&
      ((name) => createReservations({ store: holds, namespace: name, windowMs, sweepEveryMs: SWEEP_MS })),
  });
}

const SWEEP_MS = 1_000;

/** Whether others than this machine call the API: at its own address, or through a proxy by another name. */
function isReachable({ listen, allowHost }: ServerConfig): boolean {
  return [listen.host, ...allowHost].some((host) => !isLoopback(host));
}

/** Whoever can reach another address than loopback must show a token. */
async function checkOpenness(config: ServerConfig, { access }: Context): Promise<void> {
  const { listen, gatewayListen, allowHost, upstream } = config;
  const addresses = [
    { name: "listen", ...listen },
    ...(upstream === undefined ? [] : [{ name: "gateway-listen", ...gatewayListen }]),
    ...allowHost.map((host) => ({ name: "allow-host", host, port: undefined })),
  ];
  const open = addresses.find(({ host }) => !isLoopback(host));
  if (open === undefined || (await access.hasAny())) return;
  throw new ConfigError(
    open.name,
    open.port === undefined ? open.host : `${open.host}:${open.port}`,
    "a loopback address, unless there is an access token: make one with `nevertwice access create`, or give --access-token",
  );
}

function createApp(config: ServerConfig, metrics: Metrics): FastifyInstance {
  const { tlsCert, tlsKey, logLevel } = config;
  const tls =
    tlsCert === undefined || tlsKey === undefined
      ? {}
      : { https: { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) } };
  const app = fastify({
    ...tls,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: SLOW_REQUEST_MS,
    forceCloseConnections: "idle",
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    // What the router refuses comes by no handler of ours, and its own words would repeat the address.
    frameworkErrors: (_error, _request, reply) => {
      sendProblem(
        reply as unknown as FastifyReply,
        new NevertwiceError("request-invalid", "the address cannot be read, or a part of it is too long."),
      );
    },
    logController: new LogController({ disableRequestLogging: true }),
    // A path may hold a key: logs have the route's pattern, never the address.
    logger: logLevel === "silent" ? false : { level: logLevel, serializers: { req: () => ({}) } },
  }) as unknown as FastifyInstance;
  app.addHook("onResponse", async (request, reply) => {
    const route = request.routeOptions.url ?? "none";
    metrics.request(route, request.method, reply.statusCode, reply.elapsedTime / 1_000);
    request.log.info({
      route,
      method: request.method,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime),
    });
  });
  app.setNotFoundHandler((_request, reply) =>
    sendProblem(
      reply,
      new NevertwiceError("not-found", "there is nothing at this address; /openapi.json says what there is."),
    ),
  );
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (isNevertwiceError(error)) return sendProblem(reply, error);
    const { statusCode = 500, message } = error;
    if (statusCode === 413)
      return sendProblem(
        reply,
        new NevertwiceError("body-too-large", `the body is over ${MAX_BODY_BYTES} bytes.`),
      );
    if (statusCode < 500) return sendProblem(reply, new NevertwiceError("request-invalid", message));
    request.log.error({ err: error }, "a request failed");
    return sendProblem(reply, new NevertwiceError("internal-error", "the server failed; its log says more."));
  });
  return app;
}

/** Health is told to everybody, and holds no figure; the figures are for whoever has a token, if there are tokens. */
function registerHealth(
  app: FastifyInstance,
  context: Context,
  metrics: Metrics,
  gatekeeper: ReturnType<typeof createGatekeeper>,
): void {
  app.get("/healthz", async () => ({ status: "ok" }));
  app.get("/readyz", async (_request, reply) => {
    try {
      await context.guard(context.settings.namespace).ready();
      return { status: "ready" };
    } catch (error) {
      if (isNevertwiceError(error)) return sendProblem(reply, error);
      throw error;
    }
  });
  app.get("/metrics", async (request, reply) => {
    await gatekeeper.callerOf(request.raw);
    const { heapUsed, rss } = process.memoryUsage();
    const gauges = { in_flight: context.live.inFlight(), heap_bytes: heapUsed, resident_bytes: rss };
    return reply.type("text/plain; version=0.0.4").send(metrics.text(gauges));
  });
}

function listening(server: Server, { host, port }: Address, isSecure: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      const { port: bound } = server.address() as AddressInfo;
      resolve(`${isSecure ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
}
