/** One run of one case: the applications it serves, the requests it sends them, and gates that hold things up. */
import type { Server } from "node:http";
import type { GuardEvent } from "../../core/observer.ts";
import type { Store } from "../../core/store.ts";
import { createGuard } from "../../functions/guard.ts";
import type { HeaderLine } from "../../http/exchange.ts";
import type { HttpOptions } from "../../http/options.ts";
import { memoryStore } from "../../stores/memory.ts";
import { expect } from "../cases/expect.ts";
import { sleep } from "../cases/trial.ts";
import { type FaultyStore, faultyStore } from "../faulty-store.ts";
import { type Answer, codeOf, joined } from "./answers.ts";
import type { AdapterHarness, HandledRequest, Need, ScriptedApp, SentRequest } from "./harness.ts";
import { type Script, utf8 } from "./script.ts";
import { type Wire, wireTo } from "./wire.ts";

export interface Stage {
  /** An application behind the layer. */
  app(script: Script, given?: Given): Promise<App>;
  /** The same without the layer. */
  bare(script: Script, given?: Given): Promise<App>;
  /** Opened at the latest when the case is over, so that nothing is left waiting. */
  gate(): Gate;
  /** Resolves when it holds; fails when the case is over. */
  until(holds: () => boolean): Promise<void>;
}

export interface Given {
  readonly options?: Omit<HttpOptions<unknown>, "scope">;
  readonly parser?: ScriptedApp<unknown>["parser"];
  /** Puts something between the layer and the records. */
  readonly store?: (store: Store) => Store;
  /** The script reads the body itself, as it comes. */
  readonly readsItself?: boolean;
}

export interface Gate {
  open(): void;
  readonly opened: Promise<void>;
}

/** What a request says other than the usual one does: POST /orders, a JSON body, and one key for all of them. */
export interface Asked {
  /** Several are sent as several lines; none with []. */
  readonly key?: string | readonly string[];
  readonly method?: string;
  readonly target?: string;
  readonly headers?: readonly HeaderLine[];
  readonly body?: Uint8Array | string | AsyncIterable<Uint8Array> | null;
  /** The type of the body; null to send none. */
  readonly type?: string | null;
  /** On the one connection that is kept open. */
  readonly keeps?: boolean;
}

export interface App {
  /** Sends a request and reads the whole answer. */
  ask(asked?: Asked): Promise<Answer>;
  /** The same, again and again while the answer is that another request is outstanding. */
  settle(asked?: Asked): Promise<Answer>;
  /** Sends a request whose answer is looked at as it comes. */
  visit(asked?: Asked): Visit;
  runs(): number;
  /** What the handler saw of each request's body. */
  readonly seen: readonly unknown[];
  readonly store: FaultyStore;
  readonly events: readonly GuardEvent[];
  /** Where it is one of node's own for HTTP/1.1. */
  readonly server: Server | undefined;
}

export interface Visit {
  readonly head: Promise<Omit<Answer, "body" | "trailers">>;
  /** The next bytes; undefined at the end. */
  next(): Promise<Uint8Array | undefined>;
  /** All that has not been read yet. */
  rest(): Promise<Answer>;
  /** Goes away, and waits until the server has seen it. */
  leave(): Promise<void>;
}

export interface Case {
  /** What goes wrong for people where it does not hold. */
  readonly why: string;
  readonly needs?: readonly Need[];
  check(stage: Stage): Promise<void>;
}

/** The cases of one subject. A name is a sentence about behaviour. */
export type Cases = Readonly<Record<string, Case>>;

export const KEY = "4f7a0c7e-6e4b-4d7e-9f0a-1f0f5d2a9c11";
export const TENANT = "x-tenant";
const POLL_MS = 10;

export function startStage<Native>(harness: AdapterHarness<Native>): { stage: Stage; end(): Promise<void> } {
  const endings: (() => unknown)[] = [];
  const gates: Gate[] = [];
  let isOver = false;

  async function start(script: Script, given: Given, isBare: boolean): Promise<App> {
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
      async handle(request) {
        runs++;
        const number = runs;
        if (!given.readsItself) seen.push(await sightOf(request));
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
      gate() {
        const gate = createGate();
        gates.push(gate);
        return gate;
      },
      async until(holds) {
        while (!holds()) {
          if (isOver) throw new Error("what was waited for did not come about");
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

function createGate(): Gate {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open: () => open(), opened };
}

/** What a handler saw of a body, to be compared. */
async function sightOf(request: HandledRequest): Promise<unknown> {
  if (request.stream === undefined) return request.parsed;
  return Buffer.from(joined(await collected(request.stream()))).toString("base64");
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

function calls(wire: Wire): Pick<App, "ask" | "settle" | "visit"> {
  const ask = (asked?: Asked): Promise<Answer> => visit(wire, asked).rest();
  return {
    ask,
    visit: (asked) => visit(wire, asked),
    async settle(asked) {
      for (;;) {
        const found = await ask(asked);
        if (codeOf(found) !== "pending") return found;
        await sleep(POLL_MS);
      }
    },
  };
}

function visit(wire: Wire, asked: Asked = {}): Visit {
  const client = new AbortController();
  const request = requestOf(asked, client.signal);
  const receiving = wire.send(request, asked.keeps);
  const chunks = receiving.then(({ body }) => body[Symbol.asyncIterator]());
  const head = receiving.then(({ status, reason, headers }) => ({ status, reason, headers }));
  // Whoever does not look at an answer is not told that it failed.
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

function requestOf(asked: Asked, signal: AbortSignal): SentRequest {
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

/** How long something that must not happen is given to happen. */
const STRAGGLER_MS = 40;

/** Fails if the promise is settled: what it stands for must not have happened yet. */
export async function expectNotYet(what: string, promise: Promise<unknown>): Promise<void> {
  const isSettled = promise.then(
    () => true,
    () => true,
  );
  expect(what, await Promise.race([isSettled, sleep(STRAGGLER_MS).then(() => false)]), false);
}
