/**
 * WebSockets: a GET that asks for one is sent on as it is, and then both sides' bytes. No other protocol is passed: what
 * is inside a tunnel cannot be guarded, and another HTTP in it would walk past every rule. Such a request is taken as
 * one that asked for nothing, which HTTP allows.
 */
import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { lost, rawProblem, unreachable } from "./failure.ts";
import { responseLines } from "./header-lines.ts";
import type { ReverseProxy } from "./proxy.ts";

export interface Tunnels {
  /** For the event "upgrade" of the gateway's server. */
  onUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Ends those that are open; their clients come back to another server. */
  close(): void;
}

export interface TunnelsHow {
  readonly proxy: ReverseProxy;
  readonly server: () => Server;
  /** Throws what is wrong with the address that was called. */
  readonly checkHost: (req: IncomingMessage) => void;
  readonly timeoutMs: number;
}

export function createTunnels({ proxy, server, checkHost, timeoutMs }: TunnelsHow): Tunnels {
  const open = new Set<Duplex>();

  function connect(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const lines = [...proxy.lines(req, {}), "Connection", "Upgrade", "Upgrade", "websocket"];
    const upstream = proxy.open(req, lines);
    let isAnswered = false;
    const refuse = (error: Error) => {
      if (isAnswered) socket.destroy();
      else socket.end(rawProblem(error));
      upstream.destroy();
    };
    const timer = setTimeout(() => refuse(unreachable(new Error("no answer in time"))), timeoutMs);
    socket.once("close", () => upstream.destroy());
    upstream.once("close", () => clearTimeout(timer));
    // Nothing is claimed for a tunnel: whatever came of it, it is the client's to open another.
    upstream.once("error", (error) =>
      refuse(upstream.reusedSocket ? lost("the service went away", error) : unreachable(error)),
    );
    upstream.once("response", (answer) => {
      clearTimeout(timer);
      isAnswered = true;
      socket.write(headText(answer, ["Connection", "close"]), "latin1");
      answer.pipe(socket);
      answer.once("error", () => socket.destroy());
    });
    upstream.once("upgrade", (answer, behind, rest) => {
      clearTimeout(timer);
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
    }
    if (rest.length > 0) socket.write(rest);
    if (head.length > 0) behind.write(head);
    socket.pipe(behind);
    behind.pipe(socket);
  }

  return {
    onUpgrade(req, socket, head) {
      socket.on("error", () => socket.destroy());
      if (!isWebSocket(req)) {
        asOrdinary(server(), req, socket, head);
        return;
      }
      try {
        checkHost(req);
      } catch (error) {
        socket.end(rawProblem(error));
        return;
      }
      open.add(socket);
      socket.once("close", () => open.delete(socket));
      connect(req, socket, head);
    },
    close() {
      for (const socket of open) socket.destroy();
    },
  };
}

function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return (
    method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && !("transfer-encoding" in headers)
  );
}

/** Node has taken its hands off the connection: it is handed the request again, without the wish. */
function asOrdinary(server: Server, req: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { method, url, httpVersion, rawHeaders } = req;
  const lines: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if (!/^(upgrade|http2-settings)$/i.test(rawHeaders[i] as string))
      lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`);
  const text = `${method} ${url} HTTP/${httpVersion}\r\n${lines.join("")}\r\n`;
  socket.unshift(Buffer.concat([Buffer.from(text, "latin1"), head]));
  server.emit("connection", socket);
}

function headText(answer: IncomingMessage, more: readonly string[]): string {
  const { statusCode = 502, statusMessage = STATUS_CODES[statusCode] ?? "" } = answer;
  const lines = [...responseLines(answer), ...more];
  let text = `HTTP/1.1 ${statusCode} ${statusMessage}\r\n`;
  for (let i = 0; i + 1 < lines.length; i += 2) text += `${lines[i]}: ${lines[i + 1]}\r\n`;
  return `${text}\r\n`;
}
