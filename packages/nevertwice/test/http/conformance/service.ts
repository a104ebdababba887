/** A service behind the layer on a real socket, a client that sends exact bytes, and a manual clock. */
import { EventEmitter, once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Clock, Timer } from "../../../src/core/clock.ts";
import { createEngine, type Engine, type GuardOptions } from "../../../src/core/engine.ts";
import type { GuardEvent } from "../../../src/core/observer.ts";
import type { Parts, Store } from "../../../src/core/store.ts";
import { randomToken } from "../../../src/core/token.ts";
import type { HttpAttempt } from "../../../src/http/http-attempt.ts";
import type { HeaderLine } from "../../../src/http/http-message.ts";
import { idempotency } from "../../../src/http/node.ts";
import type { HttpOptions } from "../../../src/http/options.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { createWorld } from "../../../src/testing/simulation/world.ts";
import { deferred } from "../../deferred.ts";

export interface Sent {
  /** Default POST. */
  readonly method?: string;
  /** Default /orders. */
  readonly path?: string;
  /** The value of Idempotency-Key on the wire. Without it, the header is not sent. */
  readonly key?: string | undefined;
  readonly headers?: readonly HeaderLine[];
  /** Text and bytes are sent unchanged, other values as JSON. Default: the JSON of one order. */
  readonly body?: unknown;
  /** Closes the connection when it fires. */
  readonly signal?: AbortSignal;
}

export interface Received {
  readonly status: number;
  /** As they came, names in lower case. */
  readonly lines: readonly HeaderLine[];
  readonly body: Buffer;
  readonly text: string;
  /** The values of a header, joined. */
  header(name: string): string | undefined;
  json<T = Record<string, unknown>>(): T;
}

export interface Client {
  readonly port: number;
  readonly server: Server;
  send(sent?: Sent): Promise<Received>;
  close(): Promise<void>;
}

const ORDER = { item: "book", amount: 100 };

/** Listens on a free port until the test ends. */
export async function listen(listener: RequestListener): Promise<Client> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => void server.close(resolve));
  };
  onTestFinished(close);
  return { port, server, send: (sent = {}) => send(port, sent), close };
}

/** One request on its own connection. */
export async function send(port: number, sent: Sent): Promise<Received> {
  const { method = "POST", path = "/orders", key, body = ORDER, headers = [], signal } = sent;
  const isRaw = typeof body === "string" || body instanceof Uint8Array;
  const bytes = isRaw ? Buffer.from(body as string) : Buffer.from(JSON.stringify(body));
  const lines: HeaderLine[] = [["Host", `127.0.0.1:${port}`], ...headers];
  const hasLine = (name: string) => headers.some(([line]) => line.toLowerCase() === name);
  if (key !== undefined) lines.push(["Idempotency-Key", key]);
  const hasBody = method !== "GET" && method !== "HEAD";
  if (hasBody && !isRaw && !hasLine("content-type")) lines.push(["Content-Type", "application/json"]);
  if (hasBody && !hasLine("transfer-encoding")) lines.push(["Content-Length", String(bytes.length)]);
  const outgoing = request({
    port,
    host: "127.0.0.1",
    method,
    path,
    headers: lines.flat(),
    agent: false,
    ...(signal === undefined ? {} : { signal }),
  });
  outgoing.end(hasBody ? bytes : undefined);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return received(response);
}

export async function received(response: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const { rawHeaders } = response;
  const lines = rawHeaders.flatMap((name, index): HeaderLine[] =>
    index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] as string]] : [],
  );
  return {
    status: response.statusCode ?? 0,
    lines,
    body,
    text: body.toString("utf8"),
    header(name) {
      const values = lines.filter(([line]) => line === name).map(([, value]) => value);
      return values.length === 0 ? undefined : values.join(", ");
    },
    json: () => JSON.parse(body.toString("utf8")),
  };
}

export type Handler = (call: HandlerCall) => unknown;

export interface HandlerCall {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly attempt: HttpAttempt | undefined;
  /** Which run of the handler this is, from 1. */
  readonly run: number;
}

export interface ServiceOptions {
  readonly handler?: Handler;
  readonly options?: Partial<HttpOptions<IncomingMessage>>;
  readonly store?: Store;
  readonly guard?: Partial<GuardOptions>;
  /** Default: real time. */
  readonly time?: VirtualTime;
}

export interface Service extends Client {
  /** How often the handler ran. */
  readonly runs: () => number;
  readonly guard: Engine;
  readonly store: Store;
  readonly events: readonly GuardEvent[];
  /** Resolves when the guard has emitted this event, or if it has emitted it before. */
  happened(kind: GuardEvent["kind"]): Promise<void>;
}

/** Answers with the number of the run and the key, which a replay must not change. */
const ordered: Handler = ({ res, run, attempt }) => {
  res.writeHead(201, { "Content-Type": "application/json", Location: `/orders/${run}` });
  res.end(JSON.stringify({ order: run, key: attempt?.key }));
};

/** A service on node:http. Its scope is "anyone", unless the options have another. */
export async function serve(settings: ServiceOptions = {}): Promise<Service> {
  const { handler = ordered, time } = settings;
  const store = settings.store ?? memoryStore(time === undefined ? {} : { clock: time.clock });
  const events: GuardEvent[] = [];
  const emitted = new EventEmitter();
  const guardOptions: GuardOptions = {
    store,
    purgeEveryMs: 0,
    observer(event) {
      events.push(event);
      emitted.emit(event.kind);
    },
    ...settings.guard,
  };
  const guard =
    time === undefined
      ? createEngine(guardOptions)
      : createEngine(guardOptions, { timer: time.timer, random: () => 0.5, newToken: randomToken });
  let runs = 0;
  const clock = time === undefined ? {} : { clock: time.clock };
  const layer = idempotency(guard, { scope: "anyone", ...clock, ...settings.options });
  const client = await listen(layer((req, res, attempt) => handler({ req, res, attempt, run: ++runs })));
  onTestFinished(() => void guard.close());
  return {
    ...client,
    guard,
    store,
    events,
    runs: () => runs,
    async happened(kind) {
      if (!events.some((event) => event.kind === kind)) await once(emitted, kind);
    },
  };
}

/** Manual time: the clock of the store and the layer, and the engine's timer. */
export interface VirtualTime {
  readonly clock: Clock;
  readonly timer: Timer;
  advance(ms: number): Promise<void>;
}

const START_MS = 1_767_225_600_000;

export function virtualTime(): VirtualTime {
  const world = createWorld();
  return {
    clock: { now: () => START_MS + world.now() },
    timer: world,
    async advance(ms) {
      // Running code sets its timers first.
      await world.run(() => true);
      let isReached = false;
      world.after(ms, () => {
        isReached = true;
      });
      await world.run(() => isReached);
    },
  };
}

/** A gate that is closed until it is opened, and reports when a caller waits at it. */
export interface Gate {
  /** Waits until the gate is open. */
  pass(): Promise<void>;
  /** Resolves when this many callers wait, or have passed. Default 1. */
  reached(count?: number): Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let come = 0;
  const awaited: { count: number; resolve: () => void }[] = [];
  const { promise: opened, resolve: open } = deferred();
  return {
    pass() {
      come++;
      for (const { count, resolve } of awaited) if (come >= count) resolve();
      return opened;
    },
    reached: (count = 1) =>
      new Promise((resolve) => {
        if (come >= count) resolve();
        else awaited.push({ count, resolve });
      }),
    open,
  };
}

/** The parameters of store calls. Each call has some of them. */
export interface Asked {
  readonly id: string;
  readonly token: string;
  readonly parts: Parts;
  readonly outcome: string;
}

export interface NotingStore {
  readonly store: Store;
  readonly calls: readonly { readonly method: string; readonly request: Asked }[];
  /** Resolves when a method has been called this often. */
  asked(method: keyof Store, count: number): Promise<void>;
}

/** A store that records each call before it passes it on. */
export function notingStore(inner: Store): NotingStore {
  const calls: { method: string; request: Asked }[] = [];
  const noted = new EventEmitter();
  const members = Object.entries(inner).map(([name, member]) => {
    if (typeof member !== "function") return [name, member];
    const noting = (...args: unknown[]) => {
      calls.push({ method: name, request: args[0] as Asked });
      noted.emit(name);
      return (member as (...args: unknown[]) => unknown)(...args);
    };
    return [name, noting];
  });
  const timesOf = (method: string) => calls.filter((call) => call.method === method).length;
  return {
    store: Object.fromEntries(members) as Store,
    calls,
    async asked(method, count) {
      while (timesOf(method) < count) await once(noted, method);
    },
  };
}
