/**
 * The gateway: the idempotency layer in front of a service that needs no change. It has its own listener. Requests that
 * match no rule pass through unchanged. The gateway does not check the Origin header; that stays with the service.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { BlockList, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { type Guard, isNevertwiceError, NevertwiceError } from "nevertwice";
import { profileOptions, type QuotaLimits } from "nevertwice/http";
import type { ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import { connectionLimit } from "./connection-limit.ts";
import type { Context } from "./context.ts";
import { untilQuiet } from "./departure.ts";
import { createBufferedBytes } from "./gateway/buffered-bytes.ts";
import { createConnections } from "./gateway/connections.ts";
import { askForBody, noteExpectation } from "./gateway/expect-continue.ts";
import {
  asRepeatable,
  bodiesFullError,
  disagreeingError,
  isParserError,
  unreadableRequestError,
} from "./gateway/gateway-errors.ts";
import { type GatewayRule, gatewayRules, ruleWarnings } from "./gateway/gateway-rules.ts";
import {
  createGuardedListener,
  type GuardedListener,
  type GuardedOptions,
  type GuardedParts,
} from "./gateway/guarded-listener.ts";
import { checkHead, checkHostName } from "./gateway/head-check.ts";
import { createIgnoredKeyWarning } from "./gateway/ignored-key-warning.ts";
import { keepByStatus } from "./gateway/kept-statuses.ts";
import { createListener, createPlainListener } from "./gateway/listener.ts";
import { createProxy } from "./gateway/proxy.ts";
import { createReconcile } from "./gateway/reconcile.ts";
import { createRefusals } from "./gateway/refusals.ts";
import { createRouteMatcher, type RuleTarget } from "./gateway/route-match.ts";
import { createScope, type Scope, scopeHeader } from "./gateway/scope.ts";
import { originForm } from "./gateway/target-path.ts";
import { createTunnels } from "./gateway/tunnels.ts";
import { createRegionRoute } from "./regions/region-route.ts";
import { createRegions } from "./regions/regions.ts";
import { requestTracing } from "./tracing.ts";

export interface Gateway {
  /** Not yet listening. */
  readonly server: Server;
  /** Warnings about its rules, for the operator. */
  readonly warnings: readonly string[];
  /** Accepts no new connections and waits for the requests that run. */
  close(): Promise<void>;
}

interface GatewayRoute extends RuleTarget {
  readonly listener: GuardedListener;
}

export function createGateway(config: ServerConfig, context: Context): Gateway {
  const rules = gatewayRules(config);
  const trusted = toBlockList(config.trustProxy);
  const refusals = createRefusals(rules);
  const maxConnections = connectionLimit(config.maxConnections);
  const connections = createConnections({
    maxConnections,
    // If the process may open few files, one address must not use all of them.
    maxPerAddress: Math.min(config.maxConnectionsPerAddress, Math.ceil(maxConnections / 4)),
    bodyTimeoutMs: config.bodyTimeout,
    trusted,
    refusals,
  });
  const kept = new Set(rules.flatMap(({ scope }) => scopeHeader(scope) ?? []));
  const regions = createRegions({ config, store: context.store, trusted, maxConnections, kept });
  const proxy = createProxy({
    upstream: checkedUpstream(config),
    timeoutMs: config.upstreamTimeout,
    keepAliveMs: config.upstreamKeepAlive,
    maxConnections,
    host: config.upstreamHost,
    trusted,
    kept,
    isFromGateway: (req) => regions?.findHop(req) !== undefined,
  });
  const buffered = createBufferedBytes(config.maxBufferedBytes, trusted);
  const parts = { guard: context.guard(config.namespace, "gateway"), proxy, buffered, regions };
  const matcher = createRouteMatcher(rules.map((rule) => createRoute(rule, parts, quotaLimits(config))));
  const checkHost = checkHostName(config);
  const noteIgnored = createIgnoredKeyWarning();

  function check(req: IncomingMessage): void {
    checkHead(req);
    checkHost(req);
    req.url = originForm(req.url ?? "/", req.headers.host);
  }

  function checkOrDistrust(req: IncomingMessage, res: ServerResponse): void {
    try {
      check(req);
    } catch (error) {
      connections.distrust(req, res);
      throw error;
    }
  }

  async function forwardUnguarded(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      await proxy.forward(req, res);
    } catch (error) {
      throw SAFE_METHODS.has(req.method ?? "GET") ? asRepeatable(error) : error;
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (connections.isDistrusted(req.socket)) return;
    connections.begin(req, res);
    // An "error" event without a listener would end the process. The code that waits for the response uses "close".
    res.on("error", () => {});
    try {
      checkOrDistrust(req, res);
      regions?.receive(req);
      const match = matcher.find(req.method ?? "GET", req.url as string);
      if (match === undefined) {
        if (regions?.findHop(req) !== undefined) throw disagreeingError("the route");
        noteIgnored(req);
        await forwardUnguarded(req, res);
      } else {
        // The layer identifies the request by this form; the service receives the address as it was sent.
        Object.assign(req, { originalUrl: match.identity });
        buffered.countRequest(req, res, () => {
          // Otherwise the layer would continue to read a body that no one uses.
          req.socket.pause();
          res.shouldKeepAlive = false;
          refusals.answer(res, bodiesFullError());
        });
        await match.rule.listener(req, res);
      }
    } catch (error) {
      refusals.answer(res, error);
    }
  }

  const traced = requestTracing();
  function prepare(listener: Server): Server {
    listener.on("request", (req, res) => void traced(req, res, () => serve(req, res)));
    listener.on("checkContinue", (req, res) => {
      noteExpectation(req, res);
      void traced(req, res, () => serve(req, res));
    });
    listener.on("clientError", (error: Error, socket: Duplex) => {
      // While an earlier response is being sent, the client would read these bytes as part of it.
      if (!isParserError(error) || connections.isBusy(socket) || !socket.writable) socket.destroy();
      else socket.end(refusals.raw(undefined, unreadableRequestError(error)));
    });
    listener.on("connect", (req, socket, head) => tunnels.onUpgrade(req, socket, head));
    return listener;
  }

  const server = prepare(createListener(config));
  const ordinary = prepare(createPlainListener(config));
  const tunnels = createTunnels({
    proxy,
    connections,
    refusals,
    ordinary,
    check,
    timeoutMs: config.upstreamTimeout,
    idleMs: config.tunnelTimeout,
  });
  connections.watch(server);
  connections.watchHandedOver(ordinary);
  server.on("upgrade", tunnels.onUpgrade);

  return {
    server,
    warnings: ruleWarnings(rules),
    async close() {
      tunnels.close();
      const sparesIdle = config.drainDelay > 0 && server.listening;
      if (sparesIdle) await untilQuiet(server);
      await connections.close(server, { drainMs: config.drain, sparesIdle });
      ordinary.close();
      proxy.close();
      await regions?.close();
    },
  };
}

/** All routes share one quota: it limits the keys of an owner in the whole gateway. */
function quotaLimits(config: ServerConfig): QuotaLimits {
  const { quotaKeys, quotaBytes, quotaTotalKeys, quotaTotalBytes } = config;
  return { keys: quotaKeys, bytes: quotaBytes, totalKeys: quotaTotalKeys, totalBytes: quotaTotalBytes };
}

function createRoute(rule: GatewayRule, parts: GuardedParts, quota: QuotaLimits): GatewayRoute {
  try {
    const { path, methods, waitMs, onUpstreamLost, reconcile, ...options } = rule;
    const { regions, buffered } = parts;
    const own = createScope(rule.scope);
    const home = regions && createRegionRoute(regions, rule.scope, own);
    const { scope = own } = home ?? {};
    const guarded = createGuardedListener(parts, {
      ...options,
      methods,
      scope: askForBodyAfter(scope),
      ...(home && { authorize: home.authorize }),
      keep: keepByStatus(rule),
      quota,
      ...(waitMs !== undefined && { onPending: "wait" as const, waitMs }),
      onUpstreamLost,
      ...heldKeys(rule, parts.guard),
    });
    const listener = home?.forwarding(guarded, buffered) ?? guarded;
    if (scope !== "anyone") return { path, methods, listener };
    return {
      path,
      methods,
      listener(req, res) {
        askForBody(req);
        return listener(req, res);
      },
    };
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    throw routeError(rule, error);
  }
}

/** They change nothing, so a request whose response was lost may be sent again. */
const SAFE_METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

const HOLD_FOR_MS = 30 * 86_400_000;

/** What happens to keys whose outcome is unknown. */
function heldKeys(
  rule: GatewayRule,
  guard: Guard,
): Pick<GuardedOptions, "onLapsed" | "reconcile" | "holdForMs"> {
  const {
    onLapsed = "hold",
    holdForMs = HOLD_FOR_MS,
    reconcile,
    profile = "ietf",
    replayHeaders = [],
  } = rule;
  if (reconcile === undefined) return { onLapsed, holdForMs };
  const { expired, retentionMs = guard.policy.retentionMs } = profileOptions(profile);
  const answersForMs = expired === "refuse" ? (rule.retentionMs ?? retentionMs) : undefined;
  return { onLapsed, holdForMs, reconcile: createReconcile(reconcile, { replayHeaders, answersForMs }) };
}

/** The layer reads the body after the scope, so the client is asked for its body once its owner is known. */
function askForBodyAfter(scope: Scope): Scope {
  if (scope === "anyone") return scope;
  return async (req) => {
    const owner = await scope(req);
    askForBody(req);
    return owner;
  };
}

function routeError({ path }: GatewayRule, cause: NevertwiceError): NevertwiceError {
  return new NevertwiceError("options-invalid", `route ${path}: ${cause.message}`, { cause });
}

function checkedUpstream({ upstream = "" }: ServerConfig): string {
  const { username, password } = new URL(upstream);
  if (username === "" && password === "") return upstream;
  throw new ConfigError(
    "upstream",
    "(hidden)",
    "a URL without user and password: clients send their own credentials to the service",
  );
}

function toBlockList(trusted: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}
