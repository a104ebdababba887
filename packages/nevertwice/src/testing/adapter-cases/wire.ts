/** The client of the cases: raw enough to show every header line, and able to go away at any moment. */
import http, { type IncomingMessage, type Server } from "node:http";
import http2, { type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import type { HeaderLine } from "../../http/exchange.ts";
import { sleep } from "../cases/trial.ts";
import type { ReceivedResponse, SentRequest, Served } from "./harness.ts";

export interface Wire {
  /** `keeps`: on the one connection that is kept open for such requests. */
  send(request: SentRequest, keeps?: boolean): Promise<ReceivedResponse>;
  /** Resolves once the server has seen that the client of this request went away, or had the time to. */
  noticed(request: SentRequest): Promise<void>;
  close(): void;
}

/** Names the exchange to whoever watches the server's side of it. */
const EXCHANGE = "x-exchange";
/** A server that does not read cannot see that nobody writes. */
const NOTICE_WITHIN_MS = 500;
/** How far a server of HTTP/2 may send ahead of a client that does not read. */
const WINDOW_BYTES = 1_048_576;
const HOST = "127.0.0.1";

interface Closable {
  readonly destroyed: boolean;
  once(event: "close", listener: () => void): unknown;
}

export function wireTo(served: Served): Wire {
  if ("send" in served) {
    return { send: (request) => served.send(request), noticed: () => sleep(1), close() {} };
  }
  const ends = new Map<string, Closable>();
  const names = new WeakMap<SentRequest, string>();
  let count = 0;
  const watch = (request: { headers: Record<string, unknown> }, end: Closable) => {
    const name = request.headers[EXCHANGE];
    if (typeof name === "string") ends.set(name, end);
  };
  const { port } = served.server.address() as AddressInfo;
  const client = served.http2
    ? http2Client(served.server, port, watch)
    : httpClient(served.server, port, watch);
  return {
    send(request, keeps = false) {
      const name = String(++count);
      names.set(request, name);
      return client.send({ ...request, headers: [...request.headers, [EXCHANGE, name]] }, keeps);
    },
    async noticed(request) {
      const end = ends.get(names.get(request) ?? "");
      if (end === undefined || end.destroyed) return;
      await Promise.race([
        new Promise<void>((seen) => void end.once("close", seen)),
        sleep(NOTICE_WITHIN_MS),
      ]);
    },
    close: client.close,
  };
}

type Watch = (request: { headers: Record<string, unknown> }, end: Closable) => void;
type Client = Pick<Wire, "send" | "close">;

function httpClient(server: Server, port: number, watch: Watch): Client {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const open = new Set<http.ClientRequest>();
  server.prependListener("request", (request) => watch(request, request.socket));
  return {
    send({ method, target, headers, body, signal }, keeps) {
      const sent = http.request({ host: HOST, port, method, path: target, agent: keeps ? agent : false });
      open.add(sent);
      for (const [name, values] of grouped(headers)) sent.setHeader(name, values);
      return new Promise((resolve, reject) => {
        const leave = () => sent.destroy(new Error("the client went away"));
        signal.addEventListener("abort", leave, { once: true });
        sent.on("close", () => {
          open.delete(sent);
          signal.removeEventListener("abort", leave);
          reject(new Error("the connection ended without an answer"));
        });
        sent.on("error", reject);
        sent.on("response", (response) => resolve(received(response)));
        // What fails while it is written is told by what comes back, or does not.
        upload(sent, body).catch(() => {});
      });
    },
    close() {
      for (const sent of open) sent.destroy();
      agent.destroy();
    },
  };
}

function received(response: IncomingMessage): ReceivedResponse {
  return {
    status: response.statusCode as number,
    reason: response.statusMessage,
    headers: linesOf(response.rawHeaders),
    body: response,
    trailers: () => linesOf(response.rawTrailers),
  };
}

interface Upload {
  readonly destroyed: boolean;
  /** HTTP/2 sends the head by itself. */
  flushHeaders?(): void;
  write(chunk: Uint8Array): boolean;
  once(event: "drain" | "close", listener: () => void): unknown;
  end(chunk?: Uint8Array): unknown;
}

async function upload(sent: Upload, body: SentRequest["body"]): Promise<void> {
  if (body === undefined || body instanceof Uint8Array) {
    sent.end(body);
    return;
  }
  // The head is not to wait for the first of a body that may be long in coming.
  sent.flushHeaders?.();
  const closed = new Promise<void>((resolve) => void sent.once("close", resolve));
  for await (const chunk of body) {
    if (sent.destroyed) return;
    if (sent.write(chunk)) continue;
    await Promise.race([closed, new Promise<void>((resolve) => void sent.once("drain", resolve))]);
  }
  sent.end();
}

function http2Client(server: Http2Server, port: number, watch: Watch): Client {
  const open = new Set<http2.ClientHttp2Session>();
  server.prependListener("request", (request) => watch(request, request.stream));
  return {
    // A connection each: a reader that stalls would hold up whoever shares its window.
    send({ method, target, headers, body, signal }) {
      const session = http2.connect(`http://${HOST}:${port}`, {
        settings: { initialWindowSize: WINDOW_BYTES },
      });
      session.once("connect", () => session.setLocalWindowSize(WINDOW_BYTES));
      open.add(session);
      session.on("close", () => open.delete(session));
      const sent = session.request(
        { ...Object.fromEntries(grouped(headers)), ":method": method, ":path": target },
        { endStream: body === undefined },
      );
      return new Promise((resolve, reject) => {
        const leave = () => {
          // Closed before it was sent, a stream would be ended in good order: what was sent would seem whole.
          if (sent.writableEnded) sent.close(http2.constants.NGHTTP2_CANCEL);
          else session.destroy();
        };
        signal.addEventListener("abort", leave, { once: true });
        sent.on("close", () => {
          signal.removeEventListener("abort", leave);
          // Whoever goes away leaves but a stream; the connection stays, as between a proxy and its server.
          if (!signal.aborted) session.close();
          reject(new Error("the stream ended without an answer"));
        });
        sent.on("error", reject);
        session.on("error", reject);
        let trailers: readonly HeaderLine[] = [];
        sent.on("trailers", (_values, _flags, raw?: string[]) => {
          trailers = linesOf(raw ?? []);
        });
        // The lines as they came are handed over too, though the types do not say so.
        const onResponse = ({ ":status": status }: { ":status"?: number }, _flags: number, raw: string[]) => {
          const lines = linesOf(raw).filter(([name]) => !name.startsWith(":"));
          resolve({ status: status as number, headers: lines, body: sent, trailers: () => trailers });
        };
        sent.on("response", onResponse as (headers: object, flags: number) => void);
        if (body !== undefined) upload(sent, body).catch(() => {});
      });
    },
    close() {
      for (const session of open) session.destroy();
    },
  };
}

/** Names and values in turn, as node gives them, as lines. */
function linesOf(raw: readonly string[]): readonly HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let i = 0; i < raw.length; i += 2) lines.push([raw[i] as string, raw[i + 1] as string]);
  return lines;
}

function grouped(lines: readonly HeaderLine[]): readonly (readonly [string, string | string[]])[] {
  const groups = new Map<string, string[]>();
  for (const [name, value] of lines) groups.set(name, [...(groups.get(name) ?? []), value]);
  return [...groups].map(([name, values]) => [name, values.length === 1 ? (values[0] as string) : values]);
}
