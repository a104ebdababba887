/**
 * The ready service: HTTP API, dashboard, health and figures on one address, and the gateway on another. Nothing about
 * a claim, a hold or a session is kept in it, so any number of them on one store behave as one.
 */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Store } from "nevertwice";
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
import { createApp } from "./app.ts";
import { configOf, type ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { type Context, createContext } from "./context.ts";
import { createFailedTries } from "./failed-tries.ts";
import { createGatekeeper, isLoopback } from "./gatekeeper.ts";
import { createRouteLabel } from "./gateway/route-match.ts";
import { createGateway } from "./gateway.ts";
import { rulesOf } from "./gateway-rules.ts";
import { registerHealth } from "./health.ts";
import { createLive } from "./live.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { openapiOf } from "./openapi.ts";
import { registerPages } from "./pages/pages.ts";
import { createSessions } from "./sessions.ts";
import type { Address } from "./setting.ts";
import { telemetryObservers } from "./tracing.ts";
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
  /** All that the HTTP application answers, pages and health among it: `GET /v1/keys/:id`. */
  readonly addresses: readonly string[];
}

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

/** What an operation is called in the labels of metrics. The gateway's operations are concrete paths, which hold names of customers. */
function operationLabel(config: ServerConfig): (operation: string) => string {
  return createRouteLabel(config.upstream === undefined ? [] : rulesOf(config));
}

function serverOn(stores: Stores, config: ServerConfig): NevertwiceServer {
  const metrics = createMetrics({ label: operationLabel(config) });
  const context = contextOf(config, stores, metrics);
  const isSecure = config.tlsCert !== undefined;
  const sessions = createSessions({ store: stores.records, access: context.access, isSecure });
  const gatekeeper = createGatekeeper({
    access: context.access,
    sessions,
    failedTries: createFailedTries(),
    namespace: config.namespace,
    hosts: [config.listen.host, ...config.allowHost],
  });
  const app = createApp(config, metrics, gatekeeper);
  const addresses = addressesOf(app);
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
  registerHealth(app, { context, metrics, gatekeeper });
  app.get("/openapi.json", async () => openapiOf(routes, VERSION));
  registerPages(app, { context, gatekeeper, sessions });
  const gateway = config.upstream === undefined ? undefined : createGateway(config, context);

  return {
    app,
    context,
    routes,
    addresses,
    async listen() {
      await checkOpenness(config, context);
      const url = await app.listen({ ...config.listen });
      if (gateway === undefined) return { url, gatewayUrl: undefined };
      for (const warning of gateway.warnings) app.log.warn(warning);
      return { url, gatewayUrl: await listening(gateway.server, config.gatewayListen, isSecure) };
    },
    async close() {
      await Promise.all([closeApp(app, config.drain), gateway?.close()]);
      await context.close();
      await closeStores(stores);
    },
  };
}

/** Requests that run are waited for, but not for ever: a client may send its body, or read its answer, slowly. */
async function closeApp(app: FastifyInstance, drainMs: number): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), drainMs);
  await app.close();
  clearTimeout(timer);
}

/** Filled while routes are registered. */
function addressesOf(app: FastifyInstance): readonly string[] {
  const addresses: string[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat()) addresses.push(`${one} ${url}`);
  });
  return addresses;
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
  const telemetry = telemetryObservers(operationLabel(config));
  return createContext({
    settings: config,
    store: records,
    access: createAccess({ store: records, namespace, fixed, isReachable: isReachable(config) }),
    live: createLive(),
    observersOf: (name) => [metrics.observer(name), ...telemetry],
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

function listening(server: Server, { host, port }: Address, isSecure: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      const { port: bound } = server.address() as AddressInfo;
      resolve(`${isSecure ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
}
