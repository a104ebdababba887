/** The client of the cases. It shows every header line as received, and can disconnect at any moment. */
import http, { type IncomingMessage, type Server } from "node:http";
import http2, { type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import type { HeaderLine } from "../../http/http-message.ts";
import { sleep } from "../cases/trial.ts";
import type { ReceivedResponse, SentRequest, Served } from "./harness.ts";

export interface Wire {
  /** With `keeps`, the request uses the one connection that is kept open. */
  send(request: SentRequest, keeps?: boolean): Promise<ReceivedResponse>;
  /** Resolves when the server has noticed that the client of this request disconnected, or after a time limit. */
  noticed(request: SentRequest): Promise<void>;
  close(): void;
}

/** Identifies the exchange on the server's side. */
const EXCHANGE = "x-exchange";
/** A server that does not read from the connection cannot notice the disconnect. */
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
        const leave = () => sent.destroy(new Error("the client disconnected"));
        signal.addEventListener("abort", leave, { once: true });
        sent.on("close", () => {
          open.delete(sent);
          signal.removeEventListener("abort", leave);
          reject(new Error("the connection ended without an answer"));
        });
        sent.on("error", reject);
        sent.on("response", (response) => resolve(received(response)));
        // An error of the upload shows in the response, or in the lack of one.
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
    headers: toLines(response.rawHeaders),
    body: response,
    trailers: () => toLines(response.rawTrailers),
  };
}

interface Upload {
  readonly destroyed: boolean;
  /** Missing over HTTP/2, which sends the head separately. */
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
  // Sends the head at once: the first chunk of the body may come much later.
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
    // One connection for each request: a client that stops reading would block requests that share its window.
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
          // Closing a stream before its body was sent would end it normally, and the body would look complete.
          if (sent.writableEnded) sent.close(http2.constants.NGHTTP2_CANCEL);
          else session.destroy();
        };
        signal.addEventListener("abort", leave, { once: true });
        sent.on("close", () => {
          signal.removeEventListener("abort", leave);
          // A client that disconnects closes only its stream. The connection stays open, as between a proxy and its server.
          if (!signal.aborted) session.close();
          reject(new Error("the stream ended without an answer"));
        });
        sent.on("error", reject);
        session.on("error", reject);
        let trailers: readonly HeaderLine[] = [];
        sent.on("trailers", (_values, _flags, raw?: string[]) => {
          trailers = toLines(raw ?? []);
        });
        // Node passes the raw header lines as a third argument, which the types do not mention.
        const onResponse = ({ ":status": status }: { ":status"?: number }, _flags: number, raw: string[]) => {
          const lines = toLines(raw).filter(([name]) => !name.startsWith(":"));
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

/** Converts Node's flat list of names and values to lines. */
function toLines(raw: readonly string[]): readonly HeaderLine[] {
  const lines: HeaderLine[] = [];
  for (let i = 0; i < raw.length; i += 2) lines.push([raw[i] as string, raw[i + 1] as string]);
  return lines;
}

function grouped(lines: readonly HeaderLine[]): readonly (readonly [string, string | string[]])[] {
  const groups = new Map<string, string[]>();
  for (const [name, value] of lines) groups.set(name, [...(groups.get(name) ?? []), value]);
  return [...groups].map(([name, values]) => [name, values.length === 1 ? (values[0] as string) : values]);
}
