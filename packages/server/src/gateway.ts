/**
 * The gateway: the idempotency layer in front of a service that knows nothing of it. It has a listener of its own;
 * requests that no rule is about pass untouched. The Origin of a request is the service's business, as it was before.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { BlockList, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import type { QuotaLimits } from "nevertwice/http";
import type { ServerConfig } from "./config.ts";
import { ConfigError } from "./config-error.ts";
import type { Context } from "./context.ts";
import { connectionsFor } from "./descriptors.ts";
import { createBuffered } from "./gateway/buffered.ts";
import { createConnections } from "./gateway/connections.ts";
import { askForBody, noteExpectation } from "./gateway/expectation.ts";
import { answerFailure, crowded, isOfParser, rawProblem, unreadable } from "./gateway/failure.ts";
import { type GuardedParts, guarded, type Listener } from "./gateway/guarded.ts";
import { checkHead, checkHostName } from "./gateway/head-check.ts";
import { createListener, createPlainListener } from "./gateway/listener.ts";
import { createProxy } from "./gateway/proxy.ts";
import { createRouteMatcher, type Matching } from "./gateway/route-match.ts";
import { type Scope, scopeHeader, scopeOf } from "./gateway/scope.ts";
import { originForm } from "./gateway/target.ts";
import { createTunnels } from "./gateway/upgrade.ts";
import { type GatewayRule, rulesOf, warningsAbout } from "./gateway-rules.ts";
import { requestTracing } from "./tracing.ts";

export interface Gateway {
  /** Not yet listening. */
  readonly server: Server;
  /** What an operator should know about its rules. */
  readonly warnings: readonly string[];
  /** Takes no new requests, and waits for those that run. */
  close(): Promise<void>;
}

interface Route extends Matching {
  readonly listener: Listener;
}

export function createGateway(config: ServerConfig, context: Context): Gateway {
  const rules = rulesOf(config);
  const trusted = blockListOf(config.trustProxy);
  const maxConnections = connectionsFor(config.maxConnections);
  const connections = createConnections({
    maxConnections,
    // Where the process may open few files, one address must not have them all.
    maxPerAddress: Math.min(config.maxConnectionsPerAddress, Math.ceil(maxConnections / 4)),
    bodyTimeoutMs: config.bodyTimeout,
    trusted,
  });
  const proxy = createProxy({
    upstream: upstreamOf(config),
    timeoutMs: config.upstreamTimeout,
    keepAliveMs: config.upstreamKeepAlive,
    maxConnections,
    host: config.upstreamHost,
    trusted,
    kept: new Set(rules.flatMap(({ scope }) => scopeHeader(scope) ?? [])),
  });
  const buffered = createBuffered(config.maxBufferedBytes, trusted);
  const parts = { guard: context.guard(config.namespace), proxy, buffered };
  const matcher = createRouteMatcher(rules.map((rule) => routeOf(rule, parts, quotaIn(config))));
  const isCalledRightly = checkHostName(config);

  function check(req: IncomingMessage): void {
    checkHead(req);
    isCalledRightly(req);
    req.url = originForm(req.url ?? "/", req.headers.host);
  }

  function checkWhole(req: IncomingMessage, res: ServerResponse): void {
    try {
      check(req);
    } catch (error) {
      connections.distrust(req, res);
      throw error;
    }
  }

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (connections.isDistrusted(req.socket)) return;
    connections.begin(req, res);
    // An "error" event without a listener would end the process. The code that waits for the response uses "close".
    res.on("error", () => {});
    try {
      checkWhole(req, res);
      const match = matcher.find(req.method ?? "GET", req.url as string);
      if (match === undefined) await proxy.forward(req, res);
      else {
        // What the layer takes for the address; the service gets it as it was sent.
        Object.assign(req, { originalUrl: match.identity });
        buffered.countRequest(req, res, () => {
          // The layer would go on reading, and nobody would be served by what it read.
          req.socket.pause();
          res.shouldKeepAlive = false;
          answerFailure(res, crowded());
        });
        await match.rule.listener(req, res);
      }
    } catch (error) {
      answerFailure(res, error);
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
      // Behind what is being answered it would be read as a part of that answer.
      if (!isOfParser(error) || connections.isBusy(socket) || !socket.writable) socket.destroy();
      else socket.end(rawProblem(unreadable(error)));
    });
    listener.on("connect", (req, socket, head) => tunnels.onUpgrade(req, socket, head));
    return listener;
  }

  const server = prepare(createListener(config));
  const ordinary = prepare(createPlainListener(config));
  const tunnels = createTunnels({
    proxy,
    connections,
    ordinary,
    check,
    timeoutMs: config.upstreamTimeout,
    idleMs: config.tunnelTimeout,
  });
  connections.watch(server);
  connections.watchHandedOn(ordinary);
  server.on("upgrade", tunnels.onUpgrade);

  return {
    server,
    warnings: warningsAbout(rules),
    async close() {
      tunnels.close();
      ordinary.close();
      await connections.close(server, config.drain);
      proxy.close();
    },
  };
}

/** A 404 or a 405 says that nothing was done, and any stranger can have as many of them as he likes. */
const NOT_KEPT = { 404: "release", 405: "release" } as const;

/** One quota for all routes: an owner has so many keys in this gateway. */
function quotaIn(config: ServerConfig): QuotaLimits {
  const { quotaKeys, quotaBytes, quotaTotalKeys, quotaTotalBytes } = config;
  return { keys: quotaKeys, bytes: quotaBytes, totalKeys: quotaTotalKeys, totalBytes: quotaTotalBytes };
}

function routeOf(rule: GatewayRule, parts: GuardedParts, quota: QuotaLimits): Route {
  try {
    const { path, methods, waitMs, onUpstreamLost, keep, ...options } = rule;
    const scope = scopeOf(rule.scope);
    const listener = guarded(parts, {
      ...options,
      methods,
      scope: beforeBody(scope),
      keep: { ...NOT_KEPT, ...keep },
      quota,
      ...(waitMs !== undefined && { onPending: "wait" as const, waitMs }),
      onUpstreamLost,
    });
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
    throw inRoute(rule, error);
  }
}

/** The layer reads the body after it has asked for the scope. */
function beforeBody(scope: Scope): Scope {
  if (scope === "anyone") return scope;
  return async (req) => {
    const owner = await scope(req);
    askForBody(req);
    return owner;
  };
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
