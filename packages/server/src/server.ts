/**
 * The complete service: HTTP API, dashboard, health checks and metrics on one address, and the gateway on another. All
 * state of claims, holds and sessions is in the store, so any number of servers on one store behave like one server.
 */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import { isNevertwiceError, type Store } from "nevertwice";
import { refusesLocalStores } from "nevertwice/env";
import type { Outbox } from "nevertwice/outbox";
import { openOutbox } from "nevertwice/outbox/open";
import type { Definition, Pipeline, PipelineOptions } from "nevertwice/pipeline";
import { createReservations, type ReservationStore } from "nevertwice/reservations";
import { openReservations } from "nevertwice/reservations/open";
import { openStore } from "nevertwice/stores/open";
import { createAccess } from "./access.ts";
import { createAddressCheck } from "./address-check.ts";
import { auditRoutes } from "./api/audit.ts";
import { claimsRoutes } from "./api/claims.ts";
import { eventsRoutes } from "./api/events.ts";
import { figuresRoutes } from "./api/figures.ts";
import { holdsRoutes } from "./api/holds.ts";
import { keysRoutes } from "./api/keys.ts";
import { liveRoutes } from "./api/live.ts";
import { outboxRoutes } from "./api/outbox.ts";
import { pipelineRoutes } from "./api/pipelines.ts";
import { policyRoutes } from "./api/policy.ts";
import { registerRoutes } from "./api/register-routes.ts";
import type { ApiRoute } from "./api/route.ts";
import { createApp } from "./app.ts";
import { configOf, type ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { type Context, createContext } from "./context.ts";
import { closeApp, createDeparture } from "./departure.ts";
import { createFailedTries } from "./failed-tries.ts";
import { createFigures, type SharedFigures } from "./figures/figures.ts";
import { createGatekeeper } from "./gatekeeper.ts";
import { gatewayRules } from "./gateway/gateway-rules.ts";
import { createRouteLabel } from "./gateway/route-match.ts";
import type { Gateway } from "./gateway.ts";
import { createGauges, observeGauges } from "./gauges.ts";
import { registerHealth } from "./health.ts";
import { isLoopback } from "./host-header.ts";
import { createLive } from "./live.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { openApiDocument } from "./openapi.ts";
import { registerPages } from "./pages/pages.ts";
import type { ListenAddress } from "./server-setting.ts";
import { createSessions } from "./sessions.ts";
import { VERSION } from "./version.ts";

/** A server that was created and perhaps listens. */
export interface NevertwiceServer {
  /**
   * Starts listening and returns the URLs of the API and of the gateway, if there is one. Throws a `ConfigError` if an
   * address can be reached from other machines and there is no access token.
   */
  listen(): Promise<{
    /** The URL of the API and the dashboard. */
    readonly url: string;
    /** The URL of the gateway; undefined without one. */
    readonly gatewayUrl: string | undefined;
  }>;
  /**
   * Starts a network of `nevertwice/pipeline` in this process, on the server's store, and shows it in the dashboard until it is
   * closed. `namespace` is that of the settings if not given. Rejects with `options-invalid` if a network with its id runs here.
   */
  startPipeline(
    definition: Definition,
    options?: PipelineOptions & {
      /**
       * The namespace of the pipeline's records.
       * @default the server's `namespace`
       */
      readonly namespace?: string | undefined;
    },
  ): Promise<Pipeline>;
  /**
   * Answers `/readyz` with 503 for `drainDelay`. Then accepts no connections, waits for the requests that run, and closes the stores
   * that the server opened.
   */
  close(): Promise<void>;
  /** The HTTP application, which can also be called without a socket (`app.inject`). */
  readonly app: FastifyInstance;
  /** What the routes share: the stores, the guards, the settings. */
  readonly context: Context;
  /** The routes of the API, from which its OpenAPI document is made. */
  readonly routes: readonly ApiRoute[];
  /** Method and path of everything that the HTTP application serves, pages and health checks included: `GET /v1/keys/:id`. */
  readonly addresses: readonly string[];
}

/**
 * Creates a server from its settings, with the store that they name, and does not listen yet.
 * @throws ConfigError for a setting that is wrong or contradicts another one
 * @throws `request-invalid`
 * @example
 * ```ts server
 * import { createServer } from "@nevertwice/server";
 *
 * const server = await createServer({ store: "sqlite:./nevertwice.db" });
 * const { url } = await server.listen();
 * console.log(url);
 * ```
 */
export async function createServer(given: Partial<ServerConfig> = {}): Promise<NevertwiceServer> {
  const config = configOf(given);
  refuseMemory(config);
  const stores = await openStores(config);
  try {
    return await assembleServer(stores, config);
  } catch (error) {
    await closeStores(stores);
    throw error;
  }
}

/** The most operations whose labels are remembered: an operation can be a concrete path. */
const MAX_LABELS = 1_000;

/** Returns the label of an operation in metrics. The gateway's operations are concrete paths, which may contain names of customers. */
function operationLabel(config: ServerConfig): (operation: string) => string {
  const label = createRouteLabel(config.upstream === undefined ? [] : gatewayRules(config));
  const known = new Map<string, string>();
  return (operation) => {
    const found = known.get(operation) ?? label(operation);
    if (known.size >= MAX_LABELS) known.clear();
    known.set(operation, found);
    return found;
  };
}

async function assembleServer(stores: Stores, config: ServerConfig): Promise<NevertwiceServer> {
  const label = operationLabel(config);
  const metrics = createMetrics({ label });
  const figures = createFigures({ store: stores.records, drainMs: config.drain, label });
  const context = openContext(config, stores, { metrics, figures });
  const isSecure = config.tlsCert !== undefined;
  const { drain: drainMs } = config;
  const sessions = createSessions({ store: stores.records, access: context.access, isSecure, drainMs });
  const gatekeeper = createGatekeeper({
    access: context.access,
    sessions,
    failedTries: createFailedTries(),
    namespace: config.namespace,
  });
  const checkAddress = createAddressCheck([config.listen.host, ...config.allowHost]);
  const departure = createDeparture(config.drainDelay);
  const app = createApp(config, { metrics, gatekeeper, checkAddress, departure });
  const addresses = collectAddresses(app);
  const routes = [
    ...claimsRoutes(context),
    ...eventsRoutes(context),
    ...keysRoutes(context),
    ...holdsRoutes(context),
    ...outboxRoutes(context),
    ...pipelineRoutes(context),
    ...auditRoutes(context),
    ...policyRoutes(context),
    ...liveRoutes(context),
    ...figuresRoutes(context),
  ];
  registerRoutes(app, routes, gatekeeper);
  const gauges = createGauges(context, () => metrics.namespaces(config.namespace));
  registerHealth(app, { context, metrics, gauges, gatekeeper, departure });
  const stopObserving = observeGauges(gauges);
  app.get("/openapi.json", async () => openApiDocument(routes, VERSION));
  registerPages(app, { context, gatekeeper, sessions });
  const gateway = config.upstream === undefined ? undefined : await openGateway(config, context);

  return {
    app,
    context,
    routes,
    addresses,
    startPipeline: (definition, { namespace = config.namespace, ...options } = {}) =>
      context.pipelines.start(definition, { ...options, namespace }),
    async listen() {
      await checkOpenness(config, context);
      const url = await app.listen({ ...config.listen });
      if (gateway === undefined) return { url, gatewayUrl: undefined };
      for (const warning of gateway.warnings) app.log.warn(warning);
      return { url, gatewayUrl: await listenOn(gateway.server, config.gatewayListen, isSecure) };
    },
    async close() {
      if (app.server.listening) await departure.announce();
      stopObserving();
      await Promise.all([closeApp(app, departure, drainMs), gateway?.close()]);
      await Promise.all([context.close(), sessions.end()]);
      await closeStores(stores);
    },
  };
}

/** Loaded only if it is used: the gateway's HTTP client is a large part of the code that a command would load. */
async function openGateway(config: ServerConfig, context: Context): Promise<Gateway> {
  const { createGateway } = await import("./gateway.ts");
  return createGateway(config, context);
}

/** The list fills while routes are registered. */
function collectAddresses(app: FastifyInstance): readonly string[] {
  const addresses: string[] = [];
  app.addHook("onRoute", ({ method, url }) => {
    for (const one of [method].flat()) addresses.push(`${one} ${url}`);
  });
  return addresses;
}

interface Stores {
  readonly records: Store;
  readonly holds: ReservationStore | undefined;
  readonly outbox: Outbox | undefined;
}

/** URLs of stores that can keep holds as well as records. */
const KEEPS_HOLDS = /^(memory|sqlite|postgres|postgresql|mysql):/;

/** URLs of stores that can have an outbox as well as records. */
const KEEPS_OUTBOX = /^(sqlite|postgres|postgresql|mysql):/;

/** In production, records and holds that end with this process would let work run again, unless that is allowed explicitly. */
function refuseMemory(config: ServerConfig): void {
  if (!refusesLocalStores(process.env)) return;
  for (const name of ["store", "holdsStore"] as const)
    if (config[name]?.startsWith("memory:"))
      throw new ConfigError(
        name,
        "memory:",
        "a store that outlives the process, such as sqlite: or postgres://, because NODE_ENV is production; set NEVERTWICE_ALLOW_LOCAL=true to use memory all the same",
      );
}

async function openStores({ store, holdsStore, outboxStore }: ServerConfig): Promise<Stores> {
  const records = await openStore(store);
  let holds: ReservationStore | undefined;
  try {
    const holdsUrl = holdsStore ?? (KEEPS_HOLDS.test(store) ? store : undefined);
    if (holdsUrl !== undefined) holds = await openReservations(holdsUrl);
    const outbox = await (outboxStore === undefined ? openOutboxOfStore(store) : openOutbox(outboxStore));
    return { records, holds, outbox };
  } catch (error) {
    await closeStores({ records, holds, outbox: undefined });
    throw error;
  }
}

/**
 * Undefined if the store cannot have an outbox, or if the server may not create the table. Nobody asked for an outbox, so
 * the server works without one.
 */
async function openOutboxOfStore(url: string): Promise<Outbox | undefined> {
  if (!KEEPS_OUTBOX.test(url)) return undefined;
  try {
    return await openOutbox(url);
  } catch (error) {
    if (isNevertwiceError(error, "store-unsafe")) return undefined;
    throw error;
  }
}

async function closeStores({ records, holds, outbox }: Stores): Promise<void> {
  await Promise.all([records.close(), holds?.close(), outbox?.close()]);
}

function openContext(
  config: ServerConfig,
  { records, holds, outbox }: Stores,
  { metrics, figures }: { readonly metrics: Metrics; readonly figures: SharedFigures },
): Context {
  const { namespace, accessToken: fixed, holdsWindow: windowMs } = config;
  return createContext({
    settings: config,
    store: records,
    access: createAccess({
      store: records,
      namespace,
      fixed,
      isReachable: isReachable(config),
      drainMs: config.drain,
    }),
    live: createLive(),
    figures,
    createObservers: (name) => [metrics.observer(name)],
    createHolds:
      holds &&
      ((name) => createReservations({ store: holds, namespace: name, windowMs, sweepEveryMs: SWEEP_MS })),
    createOutbox: outbox && ((name) => outbox.with({ namespace: name })),
  });
}

const SWEEP_MS = 1_000;

/** Whether other machines can call the API: at its listen address, or through a proxy under an allowed name. */
function isReachable({ listen, allowHost }: ServerConfig): boolean {
  return [listen.host, ...allowHost].some((host) => !isLoopback(host));
}

/** Throws a `ConfigError` if other machines can reach an address and there is no access token. */
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
    "a loopback address, unless there is an access token: create one with `nevertwice access create`, or set --access-token",
  );
}

function listenOn(server: Server, { host, port }: ListenAddress, isSecure: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      const { port: bound } = server.address() as AddressInfo;
      resolve(`${isSecure ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${bound}`);
    });
  });
}
