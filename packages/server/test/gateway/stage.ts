/** A gateway in front of a service on real sockets, and a client that sends exact bytes. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type RequestOptions,
  request,
  type Server,
} from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { Store } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { onTestFinished } from "vitest";
import { createAccess } from "../../src/access.ts";
import { configOf, type ServerConfig } from "../../src/config.ts";
import { createContext } from "../../src/context.ts";
import { createFigures } from "../../src/figures/figures.ts";
import { createGateway, type Gateway } from "../../src/gateway.ts";
import { createLive } from "../../src/live.ts";

export interface Stage {
  readonly port: number;
  readonly gateway: Gateway;
  readonly store: Store;
  send(sent?: Sent): Promise<Received>;
}

export interface Sent extends Pick<RequestOptions, "method" | "path" | "signal" | "agent"> {
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
}

export interface Received {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  readonly trailers: IncomingMessage["trailers"];
  code(): string;
}

/** Listens until the test ends. */
export async function serviceOn(listener: RequestListener | Server, port = 0): Promise<number> {
  const server = typeof listener === "function" ? createServer(listener) : listener;
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

export async function gatewayBefore(
  upstream: number,
  given: Partial<ServerConfig> = {},
  store: Store = memoryStore(),
): Promise<Stage> {
  const config = configOf({
    upstream: `http://127.0.0.1:${upstream}`,
    ...(given.routes === undefined && { gatewayScope: "anyone" as const }),
    ...given,
  });
  const context = createContext({
    settings: config,
    store,
    access: createAccess({ store, namespace: config.namespace, isReachable: false, drainMs: 0 }),
    live: createLive(),
    figures: createFigures({ store, drainMs: 0, label: (operation) => operation }),
    createObservers: () => [],
    createHolds: undefined,
    createOutbox: undefined,
  });
  const gateway = createGateway(config, context);
  const { server } = gateway;
  server.listen(given.gatewayListen?.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await gateway.close();
    await context.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, gateway, store, send: (sent = {}) => send(port, sent) };
}

export async function send(port: number, { key, headers, body, ...how }: Sent): Promise<Received> {
  const outgoing = request({
    host: "127.0.0.1",
    port,
    method: "POST",
    path: "/orders",
    agent: false,
    headers: { ...(key !== undefined && { "Idempotency-Key": key }), ...headers } as Record<string, string>,
    ...how,
  });
  outgoing.end(body ?? (outgoing.method === "POST" ? '{"amount":7}' : undefined));
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  const { statusCode = 0, trailers } = response;
  return { status: statusCode, headers: response.headers, text, trailers, code: () => JSON.parse(text).code };
}

/** Sends text over a new connection and reads until it is closed. */
export async function raw(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1", () => socket.write(text));
  let said = "";
  for await (const chunk of socket.setEncoding("latin1")) said += chunk;
  return said;
}

export async function read(req: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of req) text += chunk;
  return text;
}

export interface Gate {
  readonly promise: Promise<void>;
  resolve(): void;
}

export function gate(): Gate {
  let resolve = (): void => {};
  const promise = new Promise<void>((open) => {
    resolve = open;
  });
  return { promise, resolve: () => resolve() };
}
