/**
 * HTTP messages in the one shape that every adapter translates to and from: the request, the handler's response, and the
 * reply that the exchange sends instead of it.
 */
import type { WaitUntil } from "../core/wait-until.ts";
import type { MatchedRoute } from "./route-path.ts";

/** One header line. A header with several values has several lines. */
export type HeaderLine = readonly [name: string, value: string];

/** A request, as an adapter gives it to the exchange. */
export interface HttpRequest<Native> {
  /** The framework's own request object. `scope`, `operation` and the other functions in the options receive it. */
  readonly native: Native;
  readonly method: string;
  /** Path and query, as sent. */
  readonly target: string;
  /** The route that the framework's router has matched, if the layer is mounted on it. */
  readonly route?: MatchedRoute | undefined;
  /** The values of one header, joined by ", ". `name` is in lower case. */
  header(name: string): string | undefined;
  /** How many lines one header has. Adapters that get the lines joined leave it out. `name` is in lower case. */
  countLines?(name: string): number;
  /**
   * The bytes of the body, which the handler can still read afterwards; or the value that an earlier body parser left.
   * Resolves with `"too-large"` if the body is longer than `maxBytes`.
   */
  readBody(maxBytes: number): RequestBody | "too-large" | Promise<RequestBody | "too-large">;
  /** Whether the client has disconnected. Adapters that cannot see this leave it out. */
  isGone?(): boolean;
  /** The platform's `waitUntil` for this request, where there is one. */
  readonly waitUntil?: WaitUntil | undefined;
}

export type RequestBody =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "parsed"; readonly value: unknown };

/** The handler's response, as known before its first byte is sent. */
export interface HttpResponse {
  /** The HTTP status. */
  readonly status: number;
  /** The header lines, in the order in which they are sent. */
  readonly headers: readonly HeaderLine[];
  /** The whole body; undefined if it is streamed, or longer than what can be kept. */
  readonly body: Uint8Array | undefined;
  /** The work threw, although the status is that of a success: GraphQL answers so. It counts as status 500. */
  readonly isFailure?: boolean;
}

/** A response that the layer sends itself: a replay or a problem. */
export interface HttpReply {
  readonly kind: "reply";
  readonly status: number;
  readonly headers: readonly HeaderLine[];
  readonly body: Uint8Array | string;
}
