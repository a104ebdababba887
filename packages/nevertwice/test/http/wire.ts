/** Servers on real sockets until the test ends, and a client that sends and receives exact bytes. */
import { once } from "node:events";
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import {
  type ClientHttp2Session,
  connect as connect2,
  createServer as createServer2,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Starts a server; returns its port. */
export async function listen(listener: RequestListener, options: ServerOptions = {}): Promise<number> {
  return portOf(createServer(options, listener));
}

export async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A connection to a new HTTP/2 server. */
export async function session2(
  listener: (req: Http2ServerRequest, res: Http2ServerResponse) => void,
): Promise<ClientHttp2Session> {
  const server = createServer2({}, listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connect2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    session.destroy();
    server.close();
  });
  await once(session, "connect");
  return session;
}

export interface Wire {
  readonly socket: Socket;
  /** All text received so far. */
  text(): string;
  send(text: string): void;
  /** Resolves with the received text as soon as `isEnough` accepts it; rejects if the connection ends before. */
  until(isEnough: (text: string) => boolean): Promise<string>;
  /** Resolves with all received text when the server has closed the connection. */
  closed(): Promise<string>;
}

export async function open(port: number): Promise<Wire> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1");
  socket.on("error", () => {});
  const closed = once(socket, "close").then(() => text);
  await once(socket, "connect");
  onTestFinished(() => void socket.destroy());
  socket.on("data", (chunk: string) => {
    text += chunk;
  });
  return {
    socket,
    text: () => text,
    send: (more) => void socket.write(more, "latin1"),
    closed: () => closed,
    async until(isEnough) {
      while (!isEnough(text)) {
        await Promise.race([
          once(socket, "data"),
          closed.then(() => Promise.reject(new Error(`closed after: ${text}`))),
        ]);
      }
      return text;
    },
  };
}

/** A request as it is sent. Its connection is closed afterwards, unless a header says otherwise. */
export function requestText(
  body: string,
  headers: Readonly<Record<string, string>> = {},
  line = "POST /orders HTTP/1.1",
): string {
  const all = { Host: "localhost", Connection: "close", "Content-Length": String(body.length), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${[line, ...lines].join("\r\n")}\r\n\r\n${body}`;
}

export async function exchange(port: number, request: string): Promise<string> {
  const wire = await open(port);
  wire.send(request);
  return wire.closed();
}

export interface WireAnswer {
  readonly line: string;
  /** As received, in their order, without the date. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[];
}

/** Splits an answer into its parts, and joins the chunks of its body. */
export function parsed(text: string): WireAnswer {
  const end = text.indexOf("\r\n\r\n");
  const [line = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = lines.filter((header) => !header.startsWith("Date:"));
  const rest = text.slice(end + 4);
  if (!headers.includes("Transfer-Encoding: chunked")) return { line, headers, body: rest, trailers: [] };
  let body = "";
  let at = 0;
  for (;;) {
    const stop = rest.indexOf("\r\n", at);
    const size = Number.parseInt(rest.slice(at, stop), 16);
    at = stop + 2;
    if (!(size > 0)) break;
    body += rest.slice(at, at + size);
    at += size + 2;
  }
  const trailers = rest
    .slice(at)
    .split("\r\n")
    .filter((trailer) => trailer !== "");
  return { line, headers, body, trailers };
}
