/** One operation of the HTTP API as a row of data: its OpenAPI description, its checks, and its handler. */
import type { Readable } from "node:stream";
import type { ErrorCode, NevertwiceError } from "nevertwice";
import type { JsonSchema } from "nevertwice/http";
import type { Caller, Role } from "../access.ts";

export type { JsonSchema } from "nevertwice/http";

export interface Parameter {
  readonly schema: JsonSchema;
  readonly required?: boolean;
  /** The handler checks this parameter itself, because its error has its own code. */
  readonly isCheckedByRoute?: true;
  readonly description: string;
}

export interface RouteAnswer {
  readonly description: string;
  readonly schema?: JsonSchema;
  /** Default `application/json`. */
  readonly type?: string;
  /** Other content types that a query parameter can select, all of them text. */
  readonly alsoAs?: readonly string[];
}

export interface ApiRoute {
  readonly method: "GET" | "POST" | "DELETE";
  /** In the notation of OpenAPI: `/v1/claims/{id}/complete`. */
  readonly path: string;
  /** The name of the operation in generated clients. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** The roles that may call it; empty allows every role. */
  readonly roles: readonly Role[];
  readonly params?: Readonly<Record<string, Parameter>>;
  readonly query?: Readonly<Record<string, Parameter>>;
  readonly headers?: Readonly<Record<string, Parameter>>;
  readonly body?: JsonSchema;
  /** A request may have no body. */
  readonly bodyIsOptional?: true;
  readonly answers: Readonly<Record<number, RouteAnswer>>;
  /**
   * The error codes of this operation, in addition to those that every operation can return: request-invalid,
   * not-authenticated, not-authorized, quota-exceeded, unavailable, and body-too-large if it has a body.
   */
  readonly problems: readonly ErrorCode[];
  handle(request: ApiRequest): Promise<ApiAnswer> | ApiAnswer;
  /** Ends open streams when the server stops. */
  close?(): void;
}

/** A request that passed the checks of the route. */
export interface ApiRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  header(name: string): string | undefined;
  readonly caller: Caller;
  /** Whether the caller is still authorized: a long stream may outlive its token or session. */
  isStillWelcome(): Promise<boolean>;
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal;
}

export type ApiAnswer =
  | {
      readonly status: number;
      /** A JSON value, or a stream. */
      readonly body?: unknown | Readable;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** An expected refusal, with additional members for the problem document. */
  | { readonly problem: NevertwiceError; readonly more?: Readonly<Record<string, unknown>> };
