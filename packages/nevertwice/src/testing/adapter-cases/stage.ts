/** One run of one case: its applications, the requests to them, and gates that make handlers and stores wait. */
import type { Server } from "node:http";
import type { GuardEvent } from "../../core/observer.ts";
import type { Store } from "../../core/store.ts";
import { createGuard } from "../../functions/guard.ts";
import type { HeaderLine } from "../../http/http-message.ts";
import type { HttpOptions } from "../../http/options.ts";
import { memoryStore } from "../../stores/memory.ts";
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import { type FaultyStore, faultyStore } from "../faulty-store.ts";
import type { AdapterHarness, HandledRequest, Need, ScriptedApp, SentRequest } from "./harness.ts";
import { type CollectedResponse, joined, problemCode } from "./response-checks.ts";
import { type HandlerScript, utf8 } from "./script.ts";
import { type Wire, wireTo } from "./wire.ts";

export interface CaseStage {
  /** An application behind the layer. */
  app(script: HandlerScript, given?: AppSetup): Promise<CaseApp>;
  /** The same without the layer. */
  bare(script: HandlerScript, given?: AppSetup): Promise<CaseApp>;
  /** The end of the case opens every gate, so that nothing waits for ever. */
  gate(): CaseGate;
  /** Resolves when the condition holds. Rejects when the case has ended. */
  until(holds: () => boolean | Promise<boolean>): Promise<void>;
  /** A header of the framework's request, for options that are functions. */
  header(native: unknown, name: string): string | undefined;
}

export interface AppSetup {
  readonly options?: Omit<HttpOptions<unknown>, "scope">;
  readonly parser?: ScriptedApp<unknown>["parser"];
  readonly route?: string;
  /** Wraps the store that the layer uses. */
  readonly store?: (store: Store) => Store;
  /** The script reads the body itself. */
  readonly readsItself?: boolean;
}

export interface CaseGate {
  open(): void;
  readonly opened: Promise<void>;
}

/** Differences from the default request: POST /orders with a JSON body and always the same key. */
export interface RequestOverrides {
  /** Several keys are sent as several header lines, `[]` as none. */
  readonly key?: string | readonly string[];
  readonly method?: string;
  readonly target?: string;
  readonly headers?: readonly HeaderLine[];
  readonly body?: Uint8Array | string | AsyncIterable<Uint8Array> | null;
  /** The Content-Type; null to send none. */
  readonly type?: string | null;
  /** Sends the request on the connection that is kept open. */
  readonly keeps?: boolean;
}

export interface CaseApp {
  /** Sends a request and reads the whole answer. */
  ask(asked?: RequestOverrides): Promise<CollectedResponse>;
  /** The same, repeated while the answer is the problem `pending`. */
  settle(asked?: RequestOverrides): Promise<CollectedResponse>;
  /** Sends a request whose answer can be read step by step. */
  visit(asked?: RequestOverrides): Visit;
  runs(): number;
  /** The body of each request, as the handler saw it. */
  readonly seen: readonly unknown[];
  readonly store: FaultyStore;
  readonly events: readonly GuardEvent[];
  /** Undefined unless it is a Node server for HTTP/1.1. */
  readonly server: Server | undefined;
}

export interface Visit {
  readonly head: Promise<Omit<CollectedResponse, "body" | "trailers">>;
  /** The next bytes; undefined at the end. */
  next(): Promise<Uint8Array | undefined>;
  /** The rest of the answer. */
  rest(): Promise<CollectedResponse>;
  /** Disconnects, and waits until the server has noticed it. */
  leave(): Promise<void>;
}

export interface ExchangeCase {
  /** Why the case matters to users. */
  readonly why: string;
  readonly needs?: readonly Need[];
  check(stage: CaseStage): Promise<void>;
}

/** The cases of one subject by name. A name is a sentence about behaviour. */
export type ExchangeCases = Readonly<Record<string, ExchangeCase>>;

export const KEY = "4f7a0c7e-6e4b-4d7e-9f0a-1f0f5d2a9c11";
export const TENANT = "x-tenant";
const POLL_MS = 10;

export function startStage<Native>(harness: AdapterHarness<Native>): {
  stage: CaseStage;
  end(): Promise<void>;
} {
  const endings: (() => unknown)[] = [];
  const gates: CaseGate[] = [];
  let isOver = false;

  async function start(script: HandlerScript, given: AppSetup, isBare: boolean): Promise<CaseApp> {
    const events: GuardEvent[] = [];
    const records = memoryStore();
    const store = faultyStore(given.store?.(records) ?? records);
    const guard = createGuard({
      store,
      namespace: "nevertwice-cases",
      purgeEveryMs: 0,
      drainMs: 0,
      observer: (event) => events.push(event),
    });
    endings.push(() => guard.close());
    const seen: unknown[] = [];
    let runs = 0;
    const options: HttpOptions<Native> = {
      ...(given.options as Omit<HttpOptions<Native>, "scope">),
      scope: (native) => harness.header(native, TENANT) ?? "tenant-1",
    };
    const served = await harness.serve({
      layer: isBare ? undefined : { guard, options },
      parser: given.parser ?? "none",
      route: given.route,
      async handle(request) {
        runs++;
        const number = runs;
        if (!given.readsItself) seen.push(await readSeenBody(request));
        return script({ number, request });
      },
    });
    const wire = wireTo(served);
    endings.push(
      () => wire.close(),
      () => served.stop(),
    );
    const server = "server" in served && !served.http2 ? served.server : undefined;
    return { ...calls(wire), runs: () => runs, seen, store, events, server };
  }

  return {
    stage: {
      app: (script, given = {}) => start(script, given, false),
      bare: (script, given = {}) => start(script, given, true),
      header: (native, name) => harness.header(native as Native, name),
      gate() {
        const gate = createGate();
        gates.push(gate);
        return gate;
      },
      async until(holds) {
        while (!(await holds())) {
          if (isOver) throw new Error("the case ended before the condition held");
          await sleep(POLL_MS);
        }
      },
    },
    async end() {
      isOver = true;
      for (const gate of gates) gate.open();
      for (const ending of endings) await ending();
    },
  };
}

function createGate(): CaseGate {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open: () => open(), opened };
}

/** A body as the handler saw it, in a form that can be compared. */
async function readSeenBody(request: HandledRequest): Promise<unknown> {
  if (request.stream === undefined) return request.parsed;
  return Buffer.from(joined(await collected(request.stream()))).toString("base64");
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

function calls(wire: Wire): Pick<CaseApp, "ask" | "settle" | "visit"> {
  const ask = (asked?: RequestOverrides): Promise<CollectedResponse> => visit(wire, asked).rest();
  return {
    ask,
    visit: (asked) => visit(wire, asked),
    async settle(asked) {
      for (;;) {
        const found = await ask(asked);
        if (problemCode(found) !== "pending") return found;
        await sleep(POLL_MS);
      }
    },
  };
}

function visit(wire: Wire, asked: RequestOverrides = {}): Visit {
  const client = new AbortController();
  const request = toSentRequest(asked, client.signal);
  const receiving = wire.send(request, asked.keeps);
  const chunks = receiving.then(({ body }) => body[Symbol.asyncIterator]());
  const head = receiving.then(({ status, reason, headers }) => ({ status, reason, headers }));
  // A case that does not read an answer must not get an unhandled rejection.
  for (const promise of [chunks, head]) promise.catch(() => {});
  const next = async (): Promise<Uint8Array | undefined> => {
    const { done, value } = await (await chunks).next();
    return done ? undefined : value;
  };
  return {
    head,
    next,
    async rest() {
      const read: Uint8Array[] = [];
      for (let chunk = await next(); chunk !== undefined; chunk = await next()) read.push(chunk);
      return { ...(await head), body: joined(read), trailers: (await receiving).trailers?.() ?? [] };
    },
    async leave() {
      client.abort();
      await wire.noticed(request);
    },
  };
}

function toSentRequest(asked: RequestOverrides, signal: AbortSignal): SentRequest {
  const { method = "POST", target = "/orders", headers = [], key = KEY } = asked;
  const usual = method === "GET" || method === "HEAD" || method === "OPTIONS" ? null : '{"amount":7}';
  const content = asked.body === undefined ? usual : asked.body;
  const body = typeof content === "string" ? utf8(content) : (content ?? undefined);
  const contentType = asked.type === undefined && body !== undefined ? "application/json" : asked.type;
  const lines: HeaderLine[] = [key].flat().map((value) => ["idempotency-key", value]);
  if (typeof contentType === "string") lines.push(["content-type", contentType]);
  if (body instanceof Uint8Array) lines.push(["content-length", String(body.length)]);
  return { method, target, headers: [...lines, ...headers], body, signal };
}

/** How long to wait for something that must not happen. */
const STRAGGLER_MS = 40;

/** Fails if the promise has settled. */
export async function expectNotYet(what: string, promise: Promise<unknown>): Promise<void> {
  const isSettled = promise.then(
    () => true,
    () => true,
  );
  expect(what, await Promise.race([isSettled, sleep(STRAGGLER_MS).then(() => false)]), false);
}
