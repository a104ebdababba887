/**
 * What the author of an adapter writes to have it asked: how an application is served on the framework, bare and behind
 * the layer. What the application answers, and when, the cases say; how that is sent is the framework's own manner.
 */
import type { Server } from "node:http";
import type { Http2Server } from "node:http2";
import type { Guard } from "../../functions/guard.ts";
import type { HeaderLine, HttpAttempt } from "../../http/exchange.ts";
import type { HttpOptions } from "../../http/options.ts";

/** What an application may be asked to do, and what is said of it. A harness names what its framework has not. */
export const NEEDS = [
  /** Bodies written piece by piece. */
  "written",
  /** Bodies that are the framework's own streams. */
  "stream",
  /** Heads that the handler sends before it has a body. */
  "flush",
  "trailers",
  /** Reason phrases of the handler's own. */
  "reason",
  /** Answers that arrive as they are made, not when they are whole. */
  "arrival",
  /** Requests of a length that nobody knows before. */
  "uploads",
  /** Clients that go away, and a server that can see it. */
  "disconnects",
  /** Several requests on one connection. */
  "connections",
  /** A server of node's own that also takes upgrades. */
  "upgrades",
  /** A framework that answers by itself for a handler that throws. */
  "thrown",
  /** A server that refuses header values with characters that a header cannot hold. */
  "refused-headers",
  /** A parser of bodies before the layer. */
  "parser-before",
  /** A parser of bodies after the layer. */
  "parser-after",
] as const;

export type Need = (typeof NEEDS)[number];

export interface AdapterHarness<Native> {
  /** A header of the framework's own request, by its name in lower case: whom a key belongs to is read with it. */
  header(native: Native, name: string): string | undefined;
  /** Serves one application; every case serves its own. */
  serve(app: ScriptedApp<Native>): Served | Promise<Served>;
  /** What the framework has not, each with why: a case that needs it is skipped, and says so. */
  readonly lacks?: { readonly [Name in Need]?: string };
  /** How long a case may take before it counts as hanging; default 45,000. */
  readonly patienceMs?: number;
}

/** The application to serve, at every path and method. */
export interface ScriptedApp<Native> {
  /** Undefined for the bare application, which the one behind the layer is compared with. */
  readonly layer: { readonly guard: Guard; readonly options: HttpOptions<Native> } | undefined;
  /** Where the framework's parser of JSON and forms stands. With "none" the handler reads the body itself. */
  readonly parser: "none" | "before" | "after";
  /** What the handler does: await this, then send what it says. Where it rejects, the handler fails with that. */
  handle(request: HandledRequest): Promise<ScriptedAnswer>;
}

/** A request as the handler sees it. */
export interface HandledRequest {
  readonly method: string;
  /** The body as it comes; asked for once, and not where a parser has read it. */
  stream?(): AsyncIterable<Uint8Array>;
  /** What the parser made of the body. */
  readonly parsed?: unknown;
  /** The attempt, where the framework hands it to its handlers. */
  readonly attempt: HttpAttempt | undefined;
}

export interface ScriptedAnswer {
  readonly status: number;
  /** Besides those that the framework sets by itself. A name that has several values has several lines. */
  readonly headers: readonly HeaderLine[];
  readonly body: ScriptedBody;
  /** Of a body that is written. */
  readonly trailers?: readonly HeaderLine[];
  readonly reason?: string;
}

export type ScriptedBody =
  | { readonly kind: "json"; readonly value: unknown }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "empty" }
  /** Written as it comes, and with `flush` the head before it. */
  | { readonly kind: "written"; readonly chunks: AsyncIterable<Uint8Array>; readonly flush: boolean }
  /** Sent as a stream of the framework's own. */
  | { readonly kind: "stream"; readonly chunks: AsyncIterable<Uint8Array> };

/** A server that listens on this machine and is asked over sockets, or a function that stands for one. */
export type Served = (
  | { readonly server: Server; readonly http2?: false }
  | { readonly server: Http2Server; readonly http2: true }
  | { send(request: SentRequest): Promise<ReceivedResponse> }
) & {
  /** Ends it, with whatever is still under way. */
  stop(): unknown;
};

export interface SentRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: readonly HeaderLine[];
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** Fires when the client goes away. */
  readonly signal: AbortSignal;
}

export interface ReceivedResponse {
  readonly status: number;
  readonly reason?: string | undefined;
  /** As they came, a line each. */
  readonly headers: readonly HeaderLine[];
  readonly body: AsyncIterable<Uint8Array>;
  /** Asked for once the body was read. */
  trailers?(): readonly HeaderLine[];
}
