/**
 * Sends a request on to the service and its answer back, both as they come. It sends a request once and never again.
 *
 * `forward` resolves when the answer was given on its way whole, and rejects if it could not be: with
 * `upstream-unreachable` if nothing has left, with `upstream-lost` if something has. What was begun of the answer is
 * then the caller's to cut off.
 *
 * Connections, framing and parsing are undici's. It never writes more or less of a body than its length says, gives a
 * connection that has said something unasked no new request, and looks once more whether an idle one was closed.
 */
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import { request as tlsRequest } from "node:https";
import { type BlockList, isIP } from "node:net";
import { buildConnector, type Dispatcher, Pool } from "undici";
import { askForBody } from "./expectation.ts";
import { requestLines } from "./header-lines.ts";
import { Passage } from "./passage.ts";
import { requestBody } from "./request-body.ts";
import { createReuse } from "./reuse.ts";

export interface ProxyOptions {
  readonly upstream: string;
  /** How long the service may take until it begins to answer, and between two pieces of its answer. */
  readonly timeoutMs: number;
  /** How long an idle connection is kept for another request; 0 opens one for each request. */
  readonly keepAliveMs: number;
  readonly maxConnections: number;
  /** Whether the service sees the Host that the client called, or its own. */
  readonly host: "client" | "upstream";
  readonly trusted: BlockList;
  /** Names of headers that Connection cannot take away, in lower case. */
  readonly kept: ReadonlySet<string>;
}

export interface ForwardHow {
  /** Of the attempt. Such a request is carried to its end also if its client goes away. */
  readonly fence?: number | undefined;
  /** Makes room for bytes of an answer that is held back; false if there is none. */
  readonly hold?: ((bytes: number) => boolean) | undefined;
}

export interface ReverseProxy {
  forward(req: IncomingMessage, res: ServerResponse, how?: ForwardHow): Promise<void>;
  /** A request for a WebSocket on a connection of its own, which no other request ever uses. */
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
  // Else the certificate would be asked for, and checked, by the Host that a client made up.
  const servername = isIP(hostname) === 0 ? hostname : "";
  const connector = buildConnector({ timeout: Math.min(CONNECT_MS, timeoutMs) });
  const reuse = createReuse();
  const open = (keepAlive: boolean) =>
    new Pool(url.origin, {
      connections: maxConnections,
      // 0 is undici's word for a connection a request.
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

  /** One that keeps connections open, but for a key's request only if that is safe, or if it has none to offer. */
  function poolFor(fence: number | undefined): Pool {
    if (fence === undefined || reuse.isTrusted() || reusing.stats.connected === 0) return reusing;
    return fresh;
  }

  const linesOf = (req: IncomingMessage, fence: number | undefined) =>
    requestLines(req, { host, trusted, kept, fence });

  return {
    forward(req, res, { fence, hold } = {}) {
      return new Promise((resolve, reject) => {
        const { method = "GET", url: path = "/" } = req;
        askForBody(req);
        const pool = poolFor(fence);
        const onEnd = () => {
          if (pool === reusing) reuse.noteIdle();
          resolve();
        };
        const passage = new Passage({ req, res, timeoutMs, hold, resolve: onEnd, reject });
        const { content, length } = requestBody(req);
        const headers = linesOf(req, fence);
        if (length !== undefined) headers.push("Content-Length", length);
        // A constant name: else each Host would be another service to the dispatcher, and close the last one's connection.
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
          ...linesOf(req, undefined),
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
