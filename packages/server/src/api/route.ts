/** One operation of the HTTP API: what OpenAPI says of it, what is checked before it, and what it does. */
import type { Readable } from "node:stream";
import type { ErrorCode, NevertwiceError } from "nevertwice";
import type { Caller, Role } from "../access.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly schema: JsonSchema;
  readonly required?: boolean;
  /** The route itself says what is wrong with it: it has a code of its own. */
  readonly isCheckedByRoute?: true;
  readonly description: string;
}

export interface Answer {
  readonly description: string;
  readonly schema?: JsonSchema;
  /** Default `application/json`. */
  readonly type?: string;
  /** As which other types a query can have it, all of them text. */
  readonly alsoAs?: readonly string[];
}

export interface Route {
  readonly method: "GET" | "POST" | "DELETE";
  /** As OpenAPI writes it: `/v1/claims/{id}/complete`. */
  readonly path: string;
  /** The operation's name in generated clients. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** Who may; empty for everybody who has a token, if there are tokens. */
  readonly roles: readonly Role[];
  readonly params?: Readonly<Record<string, Parameter>>;
  readonly query?: Readonly<Record<string, Parameter>>;
  readonly headers?: Readonly<Record<string, Parameter>>;
  readonly body?: JsonSchema;
  /** A request without a body is one too. */
  readonly bodyIsOptional?: true;
  readonly answers: Readonly<Record<number, Answer>>;
  /**
   * Besides those that every operation has: request-invalid, not-authenticated, not-authorized, quota-exceeded,
   * unavailable, and body-too-large where there is a body.
   */
  readonly problems: readonly ErrorCode[];
  handle(request: ApiRequest): Promise<ApiAnswer> | ApiAnswer;
  /** Ends what would keep the server from stopping. */
  close?(): void;
}

/** Checked against the route's schemas. */
export interface ApiRequest {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  header(name: string): string | undefined;
  readonly caller: Caller;
  /** Whether the request would be let in again now: its token may be revoked by then, or its session closed. */
  isStillWelcome(): Promise<boolean>;
  /** Fires when the client has gone. */
  readonly signal: AbortSignal;
}

export type ApiAnswer =
  | {
      readonly status: number;
      /** A JSON value, or a stream of the answer's type. */
      readonly body?: unknown | Readable;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** A refusal that is expected, with what else the problem says of it. */
  | { readonly problem: NevertwiceError; readonly more?: Readonly<Record<string, unknown>> };
