/**
 * The harness that the author of an adapter writes to run the cases: it serves an application on the framework, with and
 * without the layer. The cases script what the application answers, and when. The harness sends it in the framework's way.
 */
import type { Server } from "node:http";
import type { Http2Server } from "node:http2";
import type { Guard } from "../../functions/guard.ts";
import type { HttpAttempt } from "../../http/http-attempt.ts";
import type { HeaderLine } from "../../http/http-message.ts";
import type { HttpOptions } from "../../http/options.ts";

/** Features that a case may need. A harness lists those that its framework lacks. */
export const NEEDS = [
  /** Bodies written piece by piece. */
  "written",
  /** Bodies that are streams of the framework. */
  "stream",
  /** Heads that the handler sends before the body. */
  "flush",
  "trailers",
  /** Reason phrases that the handler sets. */
  "reason",
  /** Answers that arrive while they are produced, not when they are complete. */
  "arrival",
  /** Requests without a Content-Length. */
  "uploads",
  /** Clients that disconnect, and a server that notices it. */
  "disconnects",
  /** Several requests on one connection. */
  "connections",
  /** A Node server that also accepts upgrades. */
  "upgrades",
  /** A framework that sends an error response for a handler that throws. */
  "thrown",
  /** A server that rejects header values with invalid characters. */
  "refused-headers",
  /** Requests whose header lines can be told apart. */
  "header-lines",
  /** A router, and a layer that can be mounted on one of its routes. */
  "routes",
  /** A body parser in front of the layer. */
  "parser-before",
  /** A body parser behind the layer. */
  "parser-after",
] as const;

/** What a case needs of a framework or its server. */
export type Need = (typeof NEEDS)[number];

/** How the cases serve an application of the framework and call it. */
export interface AdapterHarness<Native> {
  /** A header of the framework's request, by its lower-case name. The cases use it for `scope`. */
  header(native: Native, name: string): string | undefined;
  /** Serves one application. Every case serves its own. */
  serve(app: ScriptedApp<Native>): Served | Promise<Served>;
  /** The features that the framework lacks, each with a reason. Cases that need one are skipped with that reason. */
  readonly lacks?: { readonly [Name in Need]?: string };
  /** How long a case may take before it counts as hanging. Default: 45,000. */
  readonly patienceMs?: number;
}

/** The application to serve: for every path and method, or on one route. */
export interface ScriptedApp<Native> {
  /** Undefined for the bare application, to which the one behind the layer is compared. */
  readonly layer:
    | {
        /** The guard of the layer. */
        readonly guard: Guard;
        /** The options of the layer. */
        readonly options: HttpOptions<Native>;
      }
    | undefined;
  /** Where to mount the framework's parser of JSON and forms. With "none", the handler reads the body itself. */
  readonly parser: "none" | "before" | "after";
  /**
   * The pattern to mount layer and handler on, such as `/payments/:id/capture`; undefined for every path. If the router can
   * accept another case and a slash at the end, let it.
   */
  readonly route?: string | undefined;
  /** The handler: await this, then send the answer. If it rejects, the handler must fail with that error. */
  handle(request: HandledRequest): Promise<ScriptedAnswer>;
}

/** A request, as the handler sees it. */
export interface HandledRequest {
  /** The method of the request. */
  readonly method: string;
  /** The body as it arrives. Called once, and only if no parser has read it. */
  stream?(): AsyncIterable<Uint8Array>;
  /** The parsed body. */
  readonly parsed?: unknown;
  /** The attempt that the adapter passed to the handler. */
  readonly attempt: HttpAttempt | undefined;
}

/** What the handler of the application answers. */
export interface ScriptedAnswer {
  /** The HTTP status. */
  readonly status: number;
  /** In addition to those that the framework sets. A header with several values has several lines. */
  readonly headers: readonly HeaderLine[];
  /** The body. */
  readonly body: ScriptedBody;
  /** Only for a body that is written. */
  readonly trailers?: readonly HeaderLine[];
  /** The reason phrase, if the framework can set one. */
  readonly reason?: string;
}

/** How the handler sends its body. */
export type ScriptedBody =
  | {
      readonly kind: "json";
      /** The value to send as JSON. */
      readonly value: unknown;
    }
  | {
      readonly kind: "text";
      /** The text to send. */
      readonly text: string;
    }
  | {
      readonly kind: "bytes";
      /** The bytes to send. */
      readonly bytes: Uint8Array;
    }
  | { readonly kind: "empty" }
  /** Written chunk by chunk. With `flush`, the head is sent first. */
  | {
      readonly kind: "written";
      /** The parts to send, one after another. */
      readonly chunks: AsyncIterable<Uint8Array>;
      /** Whether the head is sent before the first part. */
      readonly flush: boolean;
    }
  /** Sent as a stream of the framework. */
  | { readonly kind: "stream"; readonly chunks: AsyncIterable<Uint8Array> };

/** A server that listens on this machine, or a function that takes requests instead of one. */
export type Served = (
  | {
      /** The server that was started; the cases close it. */
      readonly server: Server;
      /** True if it speaks HTTP/2. */
      readonly http2?: false;
    }
  | { readonly server: Http2Server; readonly http2: true }
  | {
      /** Sends a request without a socket. */
      send(request: SentRequest): Promise<ReceivedResponse>;
    }
) & {
  /** Stops it, including requests that are still running. */
  stop(): unknown;
};

/** A request that a case sends. */
export interface SentRequest {
  /** The method. */
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** The header lines. */
  readonly headers: readonly HeaderLine[];
  /** The body; undefined for none. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal;
}

/** The response that a case received. */
export interface ReceivedResponse {
  /** The HTTP status. */
  readonly status: number;
  /** The reason phrase. */
  readonly reason?: string | undefined;
  /** As received, one entry for each line. */
  readonly headers: readonly HeaderLine[];
  /** The body, part by part. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Called after the body was read. */
  trailers?(): readonly HeaderLine[];
}
