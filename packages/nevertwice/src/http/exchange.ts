/** The shapes that an adapter and the exchange hand each other: a request, what its handler answered, and what to send. */
import type { Attempt } from "../core/attempt.ts";

/** One header line. A name that has several values has several lines. */
export type HeaderLine = readonly [name: string, value: string];

/** A request as an adapter hands it over. */
export interface HttpRequest<Native> {
  /** The framework's own request: what `scope`, `operation` and the other functions of the options are given. */
  readonly native: Native;
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
  /** A header's lines, joined by ", "; its name in lower case. */
  header(name: string): string | undefined;
  /** The body's bytes, which stay readable for the handler; or what a parser made of them before us. */
  readBody(maxBytes: number): RequestBody | "too-large" | Promise<RequestBody | "too-large">;
  /** Whether the client has gone. Left out where it cannot be seen. */
  isGone?(): boolean;
}

export type RequestBody =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "parsed"; readonly value: unknown };

/** What a handler answered, as far as it is known before its first byte leaves. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: readonly HeaderLine[];
  /** The whole body; undefined if it is streamed, or longer than what can be kept. */
  readonly body: Uint8Array | undefined;
}

/** What becomes of the key: answered for, free again, unknown, or answered for by status and headers alone. */
export type KeepDecision = "keep" | "release" | "unknown" | "marker";

/** What the handler is handed: the engine's attempt, and its own say about its answer. */
export interface HttpAttempt extends Attempt {
  readonly operation: string;
  readonly key: string;
  /** Decides about this one answer, before it is given: `keep("release")` after a check that nothing passed. */
  keep(decision: KeepDecision): void;
}

/** What the adapter has to send. */
export type Answer =
  /** Nothing of ours: the handler runs as if we were not there. `added` goes on top of what it answers. */
  | { readonly kind: "pass"; readonly added: readonly HeaderLine[] }
  /** What the handler answered, held back until now. */
  | { readonly kind: "held" }
  /** This, and nothing of what the handler may have answered. */
  | Reply;

export interface Reply {
  readonly kind: "reply";
  readonly status: number;
  readonly headers: readonly HeaderLine[];
  readonly body: Uint8Array | string;
}

/**
 * Starts the handler, holds back its answer and resolves with it: when it is whole, or as soon as it is clear that it
 * is streamed or longer than `maxHeldBytes`. `added` goes on top of its headers. Rejects with what the handler threw.
 */
export type Run = (attempt: HttpAttempt, added: readonly HeaderLine[]) => Promise<HttpResponse>;

export interface Exchange<Native> {
  handle(request: HttpRequest<Native>, run: Run): Promise<Answer>;
  /** How many bytes of a body are worth holding back. */
  readonly maxHeldBytes: number;
  /** Whether a body with this head is held back until it is whole; else it counts as streamed. */
  holds(status: number, header: (name: string) => string | undefined): boolean;
}
