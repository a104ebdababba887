/**
 * Forwards a request to the service and streams the response back. It sends a request once and never retries it.
 *
 * `forward` resolves when the whole response was written, and rejects otherwise: with `upstream-unreachable` if nothing
 * was sent, with `upstream-lost` if something was. If the response has started by then, the caller has to close it.
 *
 * undici handles connections, framing and parsing. It never writes more or less of a body than its length says, sends no
 * new request on a connection with unexpected data, and checks once more whether an idle connection was closed.
 */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import { request as tlsRequest } from "node:https";
import { type BlockList, isIP } from "node:net";
import type { HeaderLine } from "nevertwice/http";
import { buildConnector, type Dispatcher, Pool } from "undici";
import { createConnectionReuse } from "./connection-reuse.ts";
import { askForBody } from "./expect-continue.ts";
import { ForwardHandler } from "./forward-handler.ts";
import { forwardedBody } from "./forwarded-body.ts";
import { type ForwardedAttempt, requestLines } from "./header-lines.ts";

export interface ProxyOptions {
  readonly upstream: string;
  /** How long the service may take to start its response, and between two chunks of it. */
  readonly timeoutMs: number;
  /** How long an idle connection stays open for reuse; 0 opens a new one for each request. */
  readonly keepAliveMs: number;
  readonly maxConnections: number;
  /** The Host header that the service receives: the client's, or the host of `upstream`. */
  readonly host: "client" | "upstream";
  readonly trusted: BlockList;
  /** Headers that `Connection` cannot remove, in lower case. */
  readonly kept: ReadonlySet<string>;
  /** Whether the gateway of another region sent a request. */
  readonly isFromGateway?: (req: IncomingMessage) => boolean;
}

export interface ForwardOptions {
  /** The attempt, if the request has a key. Such a request is completed even if its client disconnects. */
  readonly attempt?: ForwardedAttempt | undefined;
  /** A line to add to a response with this status. It replaces the service's own. */
  readonly advise?: ((status: number) => HeaderLine | undefined) | undefined;
  /** Reserves room for bytes of a response that is held back; false if there is none. */
  readonly hold?: ((bytes: number) => boolean) | undefined;
  /** The mark for the gateway of another region. */
  readonly hop?: string | undefined;
}

export interface ReverseProxy {
  forward(req: IncomingMessage, res: ServerResponse, how?: ForwardOptions): Promise<void>;
  /** A request for a WebSocket, on a new connection that no other request uses. */
  openTunnel(req: IncomingMessage): ClientRequest;
  close(): void;
}

const CONNECT_MS = 10_000;
const CLOSED_BY_SERVICE: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

export function createProxy(options: ProxyOptions): ReverseProxy {
  const { trusted, kept, timeoutMs, keepAliveMs, maxConnections } = options;
  const url = new URL(options.upstream);
  const isTls = url.protocol === "https:";
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  const base = url.pathname === "/" ? "" : url.pathname.replace(/\/$/, "");
  const host = options.host === "upstream" ? url.host : undefined;
  // Otherwise the certificate would be requested and checked for the Host that a client sent.
  const servername = isIP(hostname) === 0 ? hostname : "";
  const connector = buildConnector({ timeout: Math.min(CONNECT_MS, timeoutMs) });
  const reuse = createConnectionReuse();
  const open = (keepAlive: boolean) =>
    new Pool(url.origin, {
      connections: maxConnections,
      // In undici, 0 means a new connection for each request.
      pipelining: keepAlive ? 1 : 0,
      keepAliveTimeout: Math.max(1, keepAliveMs),
      keepAliveMaxTimeout: Math.max(1, keepAliveMs),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      connect: (given, done) => connector({ ...given, servername }, done),
    });
  const reusing = open(keepAliveMs > 0);
  const fresh = open(false);
  reusing.on("disconnect", (_origin, _targets, { code }) => {
    if (CLOSED_BY_SERVICE.has(code)) reuse.noteClosed();
  });

  /** The reusing pool. A request with a key uses it only if reuse is safe, or if it has no open connection yet. */
  function poolFor(attempt: ForwardedAttempt | undefined): Pool {
    if (attempt === undefined || reuse.isTrusted() || reusing.stats.connected === 0) return reusing;
    return fresh;
  }

  const headerLines = (req: IncomingMessage, attempt?: ForwardedAttempt, hop?: string) =>
    requestLines(req, { host, trusted, kept, attempt, hop, isFromGateway: options.isFromGateway?.(req) });

  return {
    forward(req, res, { attempt, hold, advise, hop } = {}) {
      return new Promise((resolve, reject) => {
        const { method = "GET", url: path = "/" } = req;
        askForBody(req);
        const pool = poolFor(attempt);
        const onEnd = () => {
          if (pool === reusing) reuse.noteIdle();
          resolve();
        };
        const passage = new ForwardHandler({ req, res, timeoutMs, hold, advise, resolve: onEnd, reject });
        const { content, length } = forwardedBody(req);
        const headers = headerLines(req, attempt, hop);
        if (length !== undefined) headers.push("Content-Length", length);
        // A constant server name: otherwise the dispatcher would treat each Host as another service and reconnect.
        const sent = { method, path: base + path, headers, body: content, servername: hostname };
        pool.dispatch(sent as Dispatcher.DispatchOptions, passage);
      });
    },

    openTunnel(req) {
      const start = isTls ? tlsRequest : request;
      return start({
        agent: false,
        host: hostname,
        port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
        ...(isTls && { servername }),
        setHost: false,
        method: "GET",
        path: base + (req.url ?? "/"),
        headers: [
          ...(req.headers.host === undefined && host === undefined ? ["Host", url.host] : []),
          ...headerLines(req),
          ...["Connection", "Upgrade", "Upgrade", "websocket"],
        ],
      });
    },

    close() {
      void reusing.destroy();
      void fresh.destroy();
    },
  };
}
