/**
 * Runs the scripted applications of the library behind the gateway: the handler runs in a separate service that the
 * gateway reaches over a socket. Handlers find their attempt by the fence in the request.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, BlockList } from "node:net";
import type { Guard } from "nevertwice";
import type { HttpAttempt, HttpOptions } from "nevertwice/http";
import { idempotency } from "nevertwice/http/node";
import { createBufferedBytes } from "../../src/gateway/buffered-bytes.ts";
import { isUpstreamLost } from "../../src/gateway/gateway-errors.ts";
import { createProxyHandler } from "../../src/gateway/guarded-listener.ts";
import { createProxy, type ReverseProxy } from "../../src/gateway/proxy.ts";
import { createRefusals } from "../../src/gateway/refusals.ts";
import { createRouteMatcher } from "../../src/gateway/route-match.ts";

export interface Bridge {
  /** The listener of the gateway. */
  readonly listener: (req: IncomingMessage, res: ServerResponse) => Promise<void>;
  stop(): Promise<void>;
}

export interface BridgeHow {
  readonly layer: { readonly guard: Guard; readonly options: HttpOptions<IncomingMessage> } | undefined;
  /** The path of the rule; undefined for a rule for every path. */
  readonly route?: string | undefined;
  /** Makes the service's listener; `attemptOf` finds a request's attempt. */
  readonly service: (attemptOf: (req: IncomingMessage) => HttpAttempt | undefined) => RequestListener;
}

const refusals = createRefusals([]);
/** The cases ask for every method that there is. */
const METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];

export async function bridge({ layer, route = "/*", service }: BridgeHow): Promise<Bridge> {
  const attempts = new Map<string, HttpAttempt>();
  const behind = createServer(service(({ headers }) => attempts.get(String(headers["nevertwice-fence"]))));
  behind.listen(0, "127.0.0.1");
  await once(behind, "listening");
  const proxy = proxyTo((behind.address() as AddressInfo).port);
  const inner = layer === undefined ? proxy.forward : layered(layer, proxy, attempts);
  const matcher = createRouteMatcher([{ path: route, methods: METHODS }]);
  const serve = async (req: IncomingMessage, res: ServerResponse) => {
    const match = matcher.find(req.method ?? "GET", req.url ?? "/");
    if (match === undefined) return proxy.forward(req, res);
    return inner(Object.assign(req, { originalUrl: match.identity }), res);
  };
  return {
    listener: (req, res) => serve(req, res).catch((error: unknown) => refusals.answer(res, error)),
    async stop() {
      behind.close();
      behind.closeAllConnections();
      proxy.close();
    },
  };
}

function layered(
  { guard, options }: NonNullable<BridgeHow["layer"]>,
  proxy: ReverseProxy,
  attempts: Map<string, HttpAttempt>,
): (req: IncomingMessage, res: ServerResponse) => Promise<void> {
  const handler = createProxyHandler(
    { proxy, buffered: createBufferedBytes(64 * 1_048_576) },
    { canRepeat: true },
  );
  return idempotency<IncomingMessage>(guard, {
    onFailure: (error) => (isUpstreamLost(error) ? "unknown" : "release"),
    ...options,
  })((req, res, attempt) => {
    if (attempt !== undefined) attempts.set(String(attempt.fence), attempt);
    return handler(req, res, attempt);
  });
}

function proxyTo(port: number): ReverseProxy {
  return createProxy({
    upstream: `http://127.0.0.1:${port}`,
    timeoutMs: 60_000,
    keepAliveMs: 4_000,
    maxConnections: 1_000,
    host: "client",
    trusted: new BlockList(),
    kept: new Set(),
  });
}
