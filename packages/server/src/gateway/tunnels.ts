/**
 * WebSockets: a GET with an upgrade to `websocket` is forwarded on its own connection to the service, then the bytes of
 * both sides. Other protocols are not forwarded: the gateway cannot guard what is inside a tunnel, and HTTP inside it
 * would bypass every rule. A request for another protocol, or with a body, is handled as if it had no `Upgrade` header,
 * which HTTP allows.
 *
 * Node passes every request with an `Upgrade` header with its bare socket. Nothing here may throw: an exception in an
 * event handler would end the process.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { NevertwiceError } from "nevertwice";
import type { Connections } from "./connections.ts";
import { upstreamLostError, upstreamUnreachableError } from "./gateway-errors.ts";
import { responseLines } from "./header-lines.ts";
import type { ReverseProxy } from "./proxy.ts";
import type { Refusals } from "./refusals.ts";

export interface Tunnels {
  /** For the events "upgrade" and "connect" of the gateway's server. */
  onUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Closes all open tunnels; their clients reconnect to another server. */
  close(): void;
}

export interface TunnelsOptions {
  readonly proxy: ReverseProxy;
  readonly connections: Connections;
  readonly refusals: Refusals;
  /** Takes over connections whose request is handled without the upgrade; it never upgrades. */
  readonly ordinary: Server;
  /** Throws if the head of a request is invalid; converts its address to origin form. */
  readonly check: (req: IncomingMessage) => void;
  /** How long the service may take to respond. */
  readonly timeoutMs: number;
  /** How long a tunnel may be idle. */
  readonly idleMs: number;
}

export function createTunnels(how: TunnelsOptions): Tunnels {
  const { proxy, connections, refusals, ordinary, check, timeoutMs, idleMs } = how;
  const open = new Set<Duplex>();

  function connect(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const upstream = proxy.openTunnel(req);
    let isAnswered = false;
    const refuse = (error: Error) => {
      if (isAnswered) socket.destroy();
      else socket.end(refusals.raw(req, error));
      isAnswered = true;
      upstream.destroy();
    };
    const timer = setTimeout(
      () => refuse(upstreamUnreachableError(new Error("no answer in time"))),
      timeoutMs,
    );
    socket.once("close", () => upstream.destroy());
    upstream.once("close", () => clearTimeout(timer));
    // A tunnel has no claim, so after any failure the client can simply open another.
    upstream.on("error", (error) => refuse(upstreamUnreachableError(error)));
    upstream.once("response", (answer) => {
      clearTimeout(timer);
      if (isAnswered) return;
      if ((answer.statusCode ?? 0) < 200) {
        refuse(upstreamLostError("the service behind this gateway sent no valid response"));
        return;
      }
      isAnswered = true;
      socket.write(headText(answer, ["Connection", "close"]), "latin1");
      answer.pipe(socket);
      answer.once("error", () => socket.destroy());
      closeWhenIdle(answer.socket, timeoutMs);
      closeWhenIdle(socket as Socket, timeoutMs);
    });
    upstream.once("upgrade", (answer, behind, rest) => {
      clearTimeout(timer);
      if (isAnswered) {
        behind.destroy();
        return;
      }
      isAnswered = true;
      socket.write(headText(answer, ["Connection", "Upgrade", "Upgrade", "websocket"]), "latin1");
      join(socket, behind, head, rest);
    });
    upstream.end();
  }

  function join(socket: Duplex, behind: Duplex, head: Buffer, rest: Buffer): void {
    for (const [one, other] of [
      [socket, behind],
      [behind, socket],
    ] as const) {
      one.on("error", () => other.destroy());
      one.once("close", () => other.destroy());
      closeWhenIdle(one as Socket, idleMs);
    }
    if (rest.length > 0) socket.write(rest);
    if (head.length > 0) behind.write(head);
    socket.pipe(behind);
    behind.pipe(socket);
  }

  function start(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (req.method === "CONNECT")
      throw new NevertwiceError("not-supported", "this gateway does not open tunnels to other hosts.");
    if (!isWebSocket(req)) {
      passToOrdinary(ordinary, req, socket, head);
      return;
    }
    check(req);
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    connect(req, socket, head);
  }

  return {
    onUpgrade(req, socket, head) {
      socket.on("error", () => socket.destroy());
      // Earlier requests on this connection are answered first.
      connections.afterAnswers(socket, () => {
        if (socket.destroyed || connections.isDistrusted(socket)) return;
        try {
          start(req, socket, head);
        } catch (error) {
          socket.end(refusals.raw(req, error));
        }
      });
    },
    close() {
      for (const socket of open) socket.destroy();
    },
  };
}

/** Closes a connection that was idle for this long. */
function closeWhenIdle(socket: Socket, ms: number): void {
  socket.removeAllListeners("timeout");
  socket.setTimeout(ms, () => socket.destroy());
}

function isWebSocket({ method, headers }: IncomingMessage): boolean {
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && !hasBody;
}

/** Node no longer reads this connection, so another server takes it over, with the request without its `Upgrade` header. */
function passToOrdinary(ordinary: Server, req: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { method, url, httpVersion, rawHeaders } = req;
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if (!/^(upgrade|http2-settings)$/i.test(rawHeaders[i] as string))
      lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`);
  const text = `${method} ${url} HTTP/${httpVersion}\r\n${lines.join("")}\r\n`;
  socket.unshift(Buffer.concat([Buffer.from(text, "latin1"), head]));
  socket.removeAllListeners("timeout");
  ordinary.emit("connection", socket);
}

function headText(answer: IncomingMessage, more: readonly string[]): string {
  const { statusCode = 502 } = answer;
  const lines = [...responseLines(answer.rawHeaders, false, false), ...more];
  let text = `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ""}\r\n`;
  for (let i = 0; i + 1 < lines.length; i += 2) text += `${lines[i]}: ${lines[i + 1]}\r\n`;
  return `${text}\r\n`;
}
