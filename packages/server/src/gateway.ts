/**
 * The gateway: the idempotency layer before a service that knows nothing of it. It has a listener of its own; what no
 * rule is about passes untouched. The Origin of a request is the service's business, as it was before.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { BlockList, isIP } from "node:net";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import type { Context } from "./context.ts";
import { isLoopback, LOOPBACK } from "./gatekeeper.ts";
import { createDrain } from "./gateway/drain.ts";
import { answerFailure } from "./gateway/failure.ts";
import { guarded, type Listener } from "./gateway/guarded.ts";
import { createProxy, type ReverseProxy } from "./gateway/proxy.ts";
import { firstMatch, type Matching } from "./gateway/route-match.ts";
import { scopeHeader, scopeOf } from "./gateway/scope.ts";
import { createTunnels } from "./gateway/upgrade.ts";
import { type GatewayRule, rulesOf } from "./gateway-rules.ts";
import { requestTracing } from "./tracing.ts";

export interface Gateway {
  /** Not yet listening. */
  readonly server: Server;
  /** Takes no new requests, and waits for those that run. */
  close(): Promise<void>;
}

interface Route extends Matching {
  readonly listener: Listener;
}

export function createGateway(config: ServerConfig, context: Context): Gateway {
  const rules = rulesOf(config);
  const proxy = createProxy({
    upstream: upstreamOf(config),
    timeoutMs: config.upstreamTimeout,
    host: config.upstreamHost,
    trusted: blockListOf(config.trustProxy),
    kept: new Set(rules.flatMap(({ scope }) => scopeHeader(scope) ?? [])),
  });
  const routes = rules.map((rule) => routeOf(rule, context.guard(config.namespace), proxy));
  const checkHost = hostCheck(config);
  const server = serverOf(config);
  const drain = createDrain(server, config.tlsCert !== undefined);
  const tunnels = createTunnels({
    proxy,
    server: () => server,
    checkHost,
    timeoutMs: config.upstreamTimeout,
  });

  async function serve(req: IncomingMessage, res: ServerResponse, expects: boolean): Promise<void> {
    drain.begin(res);
    try {
      checkHost(req);
      const route = firstMatch(routes, req.method ?? "GET", req.url ?? "/");
      if (route === undefined) await proxy.forward(req, res, { expects });
      else {
        if (expects) res.writeContinue();
        await route.listener(req, res);
      }
    } catch (error) {
      answerFailure(res, error);
    }
  }

  const traced = requestTracing();
  server.on("request", (req, res) => void traced(req, res, () => serve(req, res, false)));
  server.on("checkContinue", (req, res) => void traced(req, res, () => serve(req, res, true)));
  server.on("upgrade", tunnels.onUpgrade);

  return {
    server,
    async close() {
      tunnels.close();
      await drain.close(config.drain);
      proxy.close();
    },
  };
}

function routeOf(rule: GatewayRule, guard: ReturnType<Context["guard"]>, proxy: ReverseProxy): Route {
  try {
    const { path, methods, waitMs, onUpstreamLost, scope, ...options } = rule;
    const listener = guarded(guard, proxy, {
      ...options,
      methods,
      scope: scopeOf(scope),
      ...(waitMs !== undefined && { onPending: "wait" as const, waitMs }),
      onUpstreamLost,
    });
    return { path, methods, listener };
  } catch (error) {
    if (!isNevertwiceError(error)) throw error;
    throw inRoute(rule, error);
  }
}

function inRoute({ path }: GatewayRule, cause: NevertwiceError): NevertwiceError {
  return new NevertwiceError("options-invalid", `the route ${path}: ${cause.message}`, { cause });
}

function upstreamOf({ upstream = "" }: ServerConfig): string {
  const { username, password } = new URL(upstream);
  if (username === "" && password === "") return upstream;
  throw new ConfigError(
    "upstream",
    "(hidden)",
    "without a user and password: clients show theirs to the service",
  );
}

function serverOf({ tlsCert, tlsKey, gatewayClientCa }: ServerConfig): Server {
  // How long a whole request may take is the service's to say; its head has node's own limit.
  const how = { requestTimeout: 0 };
  if (tlsCert === undefined || tlsKey === undefined) return createServer(how);
  return createTlsServer({
    ...how,
    cert: readFileSync(tlsCert),
    key: readFileSync(tlsKey),
    // Who has none is let in where a rule does not ask for it.
    ...(gatewayClientCa !== undefined && {
      ca: readFileSync(gatewayClientCa),
      requestCert: true,
      rejectUnauthorized: false,
    }),
  });
}

/**
 * A page of a stranger can have its own name point at this machine, and so reach what listens for this machine alone.
 * A listener for others is called by names that only the service knows.
 */
function hostCheck({ gatewayListen, allowHost }: ServerConfig): (req: IncomingMessage) => void {
  if (!isLoopback(gatewayListen.host)) return () => {};
  const allowed = new Set([...LOOPBACK, ...allowHost.map((host) => host.toLowerCase())]);
  if (isIP(gatewayListen.host) === 4) allowed.add(gatewayListen.host);
  return ({ headers }) => {
    const host = /^(\[[^\]]*\]|[^:]*)/.exec(headers.host ?? "")?.[1] ?? "";
    if (allowed.has(host.toLowerCase())) return;
    throw new NevertwiceError(
      "not-authorized",
      "the Host of the request is none of this gateway's names; start it with --allow-host NAME if it is.",
    );
  };
}

function blockListOf(trusted: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}
