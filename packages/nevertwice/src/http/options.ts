/** The options that all adapters share, with their defaults. `http-option-checks.ts` has their checks. */
import type { Clock } from "../core/clock.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { Current } from "./current-replay.ts";
import type { KeepDecision } from "./http-attempt.ts";
import type { HttpResponse } from "./http-message.ts";
import type { Problem } from "./problem.ts";
import type { ProfileName } from "./profile-names.ts";
import type { OwnRefusal } from "./replay.ts";

export type Awaitable<T> = T | PromiseLike<T>;

/** A response, as the function `keep` receives it. */
export interface JudgedResponse extends HttpResponse {
  /** The value of a header of the response; undefined if there is none. The name is case-insensitive. */
  header(name: string): string | undefined;
}

type StatusClass = `${1 | 2 | 3 | 4 | 5}xx`;
type KeepByStatus = { readonly [status: number]: KeepDecision } & {
  readonly [Class in StatusClass]?: KeepDecision;
};

/** One decision, decisions by status (`402`) or class (`"5xx"`), or a function. Without a decision, the default applies. */
export type Keep<Native> =
  | KeepDecision
  | KeepByStatus
  | ((response: JudgedResponse, request: Native) => KeepDecision | undefined);

/** A request, as the function `fingerprint` receives it. */
export interface FingerprintedRequest<Native> {
  readonly native: Native;
  readonly method: string;
  /** In its normal form, without the query. */
  readonly path: string;
  readonly query: string;
  header(name: string): string | undefined;
  /** The body as JSON, or as an earlier parser read it; undefined if it is neither. Numbers may be rounded. */
  json(): unknown;
  /** Undefined if an earlier parser has read the body. */
  bytes(): Uint8Array | undefined;
}

/** Returns what is compared in place of the body: a JSON value or bytes. */
export type FingerprintFunction<Native> = (request: FingerprintedRequest<Native>) => unknown;

/** What decides whether two requests are the same, in addition to method, path and query. */
export type FingerprintHow<Native = never> =
  | "json"
  | "raw"
  | "content-digest"
  | "none"
  | FingerprintFunction<Native>
  | {
      /** These members of a JSON body count. */
      readonly fields?: readonly string[] | undefined;
      /** Returns what is compared instead of the body. */
      readonly of?: FingerprintFunction<Native> | undefined;
      /** Members of a JSON body that do not count; `"path"` and `"query"` are those of the request. */
      readonly without?: readonly string[] | undefined;
    };

/** All processes on one store share the counts. They take each limit in blocks of a 64th. */
export interface QuotaLimits {
  /** Keys of one scope. */
  readonly keys?: number | undefined;
  /** Bytes of the kept responses of one scope. */
  readonly bytes?: number | undefined;
  /** Keys of all scopes together. */
  readonly totalKeys?: number | undefined;
  /** Bytes of the kept responses of all scopes together. */
  readonly totalBytes?: number | undefined;
}

export type LimitName = keyof QuotaLimits;

/** Requests that wait for another attempt (`onPending: "wait"`), in this process. Any further one is `pending` at once. */
export interface WaitingLimits {
  /**
   * How many of them may wait for one key.
   * @default 16
   */
  readonly perKey: number;
  /**
   * How many may wait for all keys together.
   * @default 1_000
   */
  readonly total: number;
  /**
   * How many bytes their bodies may have together.
   * @default 67_108_864 (64 MiB)
   */
  readonly bytes: number;
}

/** Options of every HTTP adapter. Every policy of the guard can be set here too. */
export interface HttpOptions<Native> extends PolicyOptions {
  /** Returns the owner of a key from the authenticated request. `"anyone"`: all callers share their keys. */
  readonly scope: "anyone" | ((request: Native) => Awaitable<string | undefined>);
  /**
   * The service whose rules apply where services differ, such as `"stripe"`.
   * @default "ietf"
   */
  readonly profile?: ProfileName | undefined;
  /**
   * Refuses requests without a key with `key-missing`.
   * @default false
   */
  readonly required?: boolean | undefined;
  /**
   * The methods on which a key counts. Safe methods are refused.
   * @default ["POST", "PATCH"]
   */
  readonly methods?: readonly string[] | undefined;
  /** The operation that the key belongs to. Default: method and path. */
  readonly operation?: string | ((request: Native) => string) | undefined;
  /**
   * The header that carries the key.
   * @default "Idempotency-Key"
   */
  readonly header?: string | undefined;
  /** The member of a JSON body that carries the key instead of a header. */
  readonly keyField?: string | undefined;
  /** Returns the key of a request, instead of a header. Undefined for a request without a key. */
  readonly key?: ((request: Native) => Awaitable<string | undefined>) | undefined;
  /** True for a request that is none of the layer's business. It runs unprotected, whether it has a key or not. */
  readonly skip?: ((request: Native) => Awaitable<boolean>) | undefined;
  /**
   * Accepts keys only as RFC 9651 Strings. Otherwise keys without quotes are accepted too.
   * @default false
   */
  readonly strict?: boolean | undefined;
  /**
   * The longest key that is accepted, in characters.
   * @default 255
   */
  readonly maxKeyLength?: number | undefined;
  /**
   * The form that a key must have. Others are `key-invalid` before the store is asked.
   * @default none
   */
  readonly keyPattern?: RegExp | undefined;
  /**
   * The largest body that is read for the fingerprint. A larger one is `body-too-large`.
   * @default 1_048_576 (1 MiB)
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * What is compared in addition to method, path and query, so that a key with another request is a
   * `conflict`.
   * @default "json"
   */
  readonly fingerprint?: FingerprintHow<Native> | undefined;
  /**
   * What happens to the key after a response: it is stored, the key is released, its outcome is unknown,
   * or only status and headers are stored. By default responses below 500 are stored, except 401, 403,
   * 408, 425 and 429.
   */
  readonly keep?: Keep<Native> | undefined;
  /**
   * What a duplicate gets: the first response byte for byte, or what `current(fn)` returns.
   * @default "snapshot"
   */
  readonly replay?: "snapshot" | Current<Native> | undefined;
  /**
   * Headers that are replayed in addition to those that always are. Patterns are refused.
   * @default []
   */
  readonly replayHeaders?: readonly string[] | undefined;
  /**
   * The header that marks a replay.
   * @default "Idempotent-Replayed"
   */
  readonly replayedHeader?: string | undefined;
  /**
   * What a duplicate gets whose response was not kept: the refusal `already-done`, or its status and
   * headers.
   * @default "refuse"
   */
  readonly onNotKept?: "status" | "refuse" | undefined;
  /** Returns the body to store instead of the one that is sent: `null` to store none, undefined to store it as it is. */
  readonly redact?: ((response: JudgedResponse, request: Native) => unknown) | undefined;
  /** Returns the application's own form of a refusal; undefined for the layer's. */
  readonly refusal?: ((problem: Problem, request: Native) => OwnRefusal | undefined) | undefined;
  /**
   * After its retention, a key runs again, or is refused for another `refuseMs`.
   * @default "run"
   */
  readonly expired?: "run" | "refuse" | undefined;
  /**
   * How long `expired: "refuse"` refuses a key after its retention.
   * @default 2_592_000_000 (30 days)
   */
  readonly refuseMs?: number | undefined;
  /** Called for every request with a key, before the store is asked. */
  readonly authorize?: ((request: Native) => Awaitable<boolean>) | undefined;
  /** Limits the keys and bytes that are stored at once. A number limits the keys of one scope. */
  readonly quota?: number | QuotaLimits | undefined;
  /**
   * Limits the requests that wait for another attempt in this process. Any further duplicate is
   * `pending` at once.
   */
  readonly maxWaiting?: Partial<WaitingLimits> | undefined;
  /**
   * Lets browsers send keys from other origins, and read the marker of a replay.
   * @default true
   */
  readonly cors?: boolean | undefined;
  /**
   * The prefix of the code in the `type` of a problem.
   * @default "urn:nevertwice:error:"
   */
  readonly problemBase?: string | undefined;
  /**
   * The prefix of the code in the link to its explanation; `false` for no link.
   * @default "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#"
   */
  readonly documentation?: string | false | undefined;
  /**
   * The clock for `expired`, `quota` and the windows of a profile.
   * @default the system clock
   */
  readonly clock?: Clock | undefined;
}

export const HTTP_DEFAULTS = {
  profile: "ietf",
  required: false,
  methods: ["POST", "PATCH"],
  header: "Idempotency-Key",
  strict: false,
  maxKeyLength: 255,
  maxBodyBytes: 1_048_576,
  fingerprint: "json",
  replay: "snapshot",
  replayHeaders: [],
  replayedHeader: "Idempotent-Replayed",
  onNotKept: "refuse",
  expired: "run",
  refuseMs: 2_592_000_000,
  maxWaiting: { perKey: 16, total: 1_000, bytes: 67_108_864 },
  cors: true,
  problemBase: "urn:nevertwice:error:",
  documentation: "https://github.com/nevertwice/nevertwice/blob/main/docs/errors.md#",
} as const;
