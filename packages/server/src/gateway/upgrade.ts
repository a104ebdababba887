/**
 * WebSockets: a GET that asks for one is sent on, on a connection to the service that nothing else uses, and then both
 * sides' bytes. No other protocol is passed: what is inside a tunnel cannot be guarded, and another HTTP in it would walk
 * past every rule. Such a request, and one that has a body, is taken as one that asked for nothing, which HTTP allows.
 *
 * Node hands every request that asks for an upgrade over with its bare socket. Nothing here may throw: an exception in
 * an event handler would end the process.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { NevertwiceError } from "nevertwice";
import type { Connections } from "./connections.ts";
import { lost, rawProblem, unreachable } from "./failure.ts";
import { responseLines } from "./header-lines.ts";
import type { ReverseProxy } from "./proxy.ts";

export interface Tunnels {
  /** For the events "upgrade" and "connect" of the gateway's server. */
  onUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Ends those that are open; their clients come back to another server. */
  close(): void;
}

export interface TunnelsHow {
  readonly proxy: ReverseProxy;
  readonly connections: Connections;
  /** Takes over connections whose request is an ordinary one after all; it agrees to no upgrade. */
  readonly ordinary: Server;
  /** Throws what is wrong with the head of a request; brings its address into origin form. */
  readonly check: (req: IncomingMessage) => void;
  /** How long the service may take to answer. */
  readonly timeoutMs: number;
  /** How long neither side may say anything. */
  readonly idleMs: number;
}

export function createTunnels(how: TunnelsHow): Tunnels {
  const { proxy, connections, ordinary, check, timeoutMs, idleMs } = how;
  const open = new Set<Duplex>();

  function connect(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const upstream = proxy.openTunnel(req);
    let isAnswered = false;
    const refuse = (error: Error) => {
      if (isAnswered) socket.destroy();
      else socket.end(rawProblem(error));
      isAnswered = true;
      upstream.destroy();
    };
    const timer = setTimeout(() => refuse(unreachable(new Error("no answer in time"))), timeoutMs);
    socket.once("close", () => upstream.destroy());
    upstream.once("close", () => clearTimeout(timer));
    // Nothing is claimed for a tunnel: whatever came of it, it is the client's to open another.
    upstream.on("error", (error) => refuse(unreachable(error)));
    upstream.once("response", (answer) => {
      clearTimeout(timer);
      if (isAnswered) return;
      if ((answer.statusCode ?? 0) < 200) {
        refuse(lost("the service behind this gateway gave no answer that can be passed on"));
        return;
      }
      isAnswered = true;
      socket.write(headText(answer, ["Connection", "close"]), "latin1");
      answer.pipe(socket);
      answer.once("error", () => socket.destroy());
      quiet(answer.socket, timeoutMs);
      quiet(socket as Socket, timeoutMs);
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
      quiet(one as Socket, idleMs);
    }
    if (rest.length > 0) socket.write(rest);
    if (head.length > 0) behind.write(head);
    socket.pipe(behind);
    behind.pipe(socket);
  }

  function start(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (req.method === "CONNECT")
      throw new NevertwiceError("not-supported", "this gateway opens no tunnels to other hosts.");
    if (!isWebSocket(req)) {
      asOrdinary(ordinary, req, socket, head);
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
      // What was asked before on this connection is answered first.
      connections.afterAnswers(socket, () => {
        if (socket.destroyed || connections.isDistrusted(socket)) return;
        try {
          start(req, socket, head);
        } catch (error) {
          socket.end(rawProblem(error));
        }
      });
    },
    close() {
      for (const socket of open) socket.destroy();
    },
  };
}

/** Ends a connection on which nothing has moved for so long. */
function quiet(socket: Socket, ms: number): void {
  socket.removeAllListeners("timeout");
  socket.setTimeout(ms, () => socket.destroy());
}

function isWebSocket({ method, headers }: IncomingMessage): boolean {
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) !== 0;
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && !hasBody;
}

/** Node has taken its hands off the connection: another server is handed the request, without the wish. */
function asOrdinary(ordinary: Server, req: IncomingMessage, socket: Duplex, head: Buffer): void {
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
