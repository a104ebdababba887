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
import { answerFailure, isUpstreamLost } from "../../src/gateway/gateway-errors.ts";
import { createProxyHandler } from "../../src/gateway/guarded-listener.ts";
import { createProxy, type ReverseProxy } from "../../src/gateway/proxy.ts";

export interface Bridge {
  /** The listener of the gateway. */
  readonly listener: (req: IncomingMessage, res: ServerResponse) => Promise<void>;
  stop(): Promise<void>;
}

export interface BridgeHow {
  readonly layer: { readonly guard: Guard; readonly options: HttpOptions<IncomingMessage> } | undefined;
  /** Makes the service's listener; `attemptOf` finds a request's attempt. */
  readonly service: (attemptOf: (req: IncomingMessage) => HttpAttempt | undefined) => RequestListener;
}

export async function bridge({ layer, service }: BridgeHow): Promise<Bridge> {
  const attempts = new Map<string, HttpAttempt>();
  const behind = createServer(service(({ headers }) => attempts.get(String(headers["nevertwice-fence"]))));
  behind.listen(0, "127.0.0.1");
  await once(behind, "listening");
  const proxy = proxyTo((behind.address() as AddressInfo).port);
  const inner = layer === undefined ? proxy.forward : layered(layer, proxy, attempts);
  return {
    listener: (req, res) => inner(req, res).catch((error: unknown) => answerFailure(res, error)),
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
  const handler = createProxyHandler({ proxy, buffered: createBufferedBytes(64 * 1_048_576) });
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
