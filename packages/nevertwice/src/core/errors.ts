/** Every error of this library: one class and one table of codes. docs/errors.md explains each code. */
import type { NotKeptReason } from "./outcome.ts";
import type { RecordState } from "./store.ts";

interface CodeRow {
  /** The HTTP status that a surface responds with. */
  readonly status: number;
  /** Whether the same request can succeed when it is sent again unchanged. */
  readonly retryable: boolean;
}

/** Every error code with its HTTP status, and whether a retry of the same request can succeed. */
export const ERROR_CODES = {
  "key-missing": { status: 400, retryable: false },
  "key-invalid": { status: 400, retryable: false },
  "fingerprint-invalid": { status: 400, retryable: false },
  "request-invalid": { status: 400, retryable: false },
  "not-authenticated": { status: 401, retryable: false },
  "signature-invalid": { status: 401, retryable: false },
  "not-authorized": { status: 403, retryable: false },
  "not-found": { status: 404, retryable: false },
  "request-timeout": { status: 408, retryable: true },
  pending: { status: 409, retryable: true },
  "already-done": { status: 409, retryable: false },
  unknown: { status: 409, retryable: false },
  expired: { status: 409, retryable: false },
  "token-spent": { status: 409, retryable: false },
  "concurrent-modification": { status: 409, retryable: false },
  "body-too-large": { status: 413, retryable: false },
  conflict: { status: 422, retryable: false },
  "quota-exceeded": { status: 429, retryable: true },
  "scope-missing": { status: 500, retryable: false },
  "lease-lost": { status: 500, retryable: true },
  "not-kept": { status: 500, retryable: false },
  "sealing-failed": { status: 500, retryable: false },
  "options-invalid": { status: 500, retryable: false },
  "manifest-invalid": { status: 500, retryable: false },
  "driver-missing": { status: 500, retryable: false },
  "store-unsafe": { status: 500, retryable: false },
  "internal-error": { status: 500, retryable: false },
  "not-supported": { status: 501, retryable: false },
  "upstream-lost": { status: 502, retryable: false },
  "upstream-unreachable": { status: 503, retryable: true },
  unavailable: { status: 503, retryable: true },
  "store-full": { status: 503, retryable: true },
  "guard-closed": { status: 503, retryable: true },
} as const satisfies Record<string, CodeRow>;

/** The `code` of a `NevertwiceError`. Codes are stable; messages are not. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** A registered symbol, so that all copies of this package share it. */
export const BRAND: unique symbol = Symbol.for("nevertwice.error") as never;

/** Which call an error is about: a label and hashes, from which neither the key nor the scope can be read. */
export interface ErrorSubject {
  readonly operation?: string | undefined;
  /** The same hash as in events and in `RecordView`. */
  readonly keyHash?: string | undefined;
  /** 16 hex digits of the SHA-256 of the scope; absent for a key without a scope. */
  readonly scopeHash?: string | undefined;
}

/** The fields that only errors of one code have. */
interface CodeFields {
  readonly pending: {
    /** How long the other attempt holds the key if it does not renew. */
    readonly leaseLeftMs?: number;
    /** How long the other attempt has run, by the store's clock. */
    readonly elapsedMs?: number;
  };
  readonly conflict: {
    /** The state of the record that has another fingerprint. */
    readonly state?: RecordState;
  };
  readonly unknown: {
    readonly fence?: number;
  };
  readonly "not-kept": {
    readonly reason?: NotKeptReason;
  };
  readonly unavailable: {
    /** How long the call waited for the store, in milliseconds. */
    readonly waitedMs?: number;
  };
}

type AllFields = CodeFields["pending"] &
  CodeFields["conflict"] &
  CodeFields["unknown"] &
  CodeFields["not-kept"] &
  CodeFields["unavailable"];

export type ErrorDetails = ErrorSubject & {
  /** The error or value that caused this one. */
  readonly cause?: unknown;
} & {
  readonly [Name in keyof AllFields]: AllFields[Name] | undefined;
};

/** An error of one code, with the fields that only this code has. */
export type NevertwiceErrorOf<Code extends ErrorCode> = ErrorCode extends Code
  ? NevertwiceError
  : Code extends keyof CodeFields
    ? NevertwiceError & { readonly code: Code } & CodeFields[Code]
    : NevertwiceError & { readonly code: Code };

/** Recognise it with `isNevertwiceError(error, code?)`, which works across copies of this package, not by `instanceof`. */
export class NevertwiceError extends Error {
  /** What went wrong. Compare this, never the message. */
  readonly code: ErrorCode;
  /** The HTTP status for this code, which the HTTP layer responds with. */
  readonly status: number;
  /** Whether the same request can succeed when it is sent again unchanged. */
  readonly retryable: boolean;
  /** On `unknown`: the fence of the lapsed claim, which `guard.resolve` needs. */
  declare readonly fence?: number;
  /** The operation of the refused call; absent if the call was not about a single key. */
  declare readonly operation?: string;
  /** A short hash of the key and everything it belongs to, the same as in events and in `RecordView`. */
  declare readonly keyHash?: string;
  /** 16 hex digits of the SHA-256 of the scope; absent for a key without a scope. */
  declare readonly scopeHash?: string;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(`${code}: ${message}`, "cause" in details ? { cause: details.cause } : undefined);
    const row: CodeRow = ERROR_CODES[code];
    this.code = code;
    this.status = row.status;
    this.retryable = row.retryable;
    const { cause: _, ...fields } = details;
    for (const name in fields) {
      const value = fields[name as keyof typeof fields];
      if (value !== undefined) Object.assign(this, { [name]: value });
    }
    Object.defineProperty(this, BRAND, { value: true });
  }

  // On the prototype, like the name of Error: an own property would be printed with every error. And in the class, so that
  // bundlers leave both out of a page that has no use for them.
  override get name(): string {
    return "NevertwiceError";
  }
}

/** True for an error of this library, from any copy of it; with `code`, only for that code, which narrows its type. */
export function isNevertwiceError<Code extends ErrorCode = ErrorCode>(
  error: unknown,
  code?: Code,
): error is NevertwiceErrorOf<Code> {
  if (typeof error !== "object" || error === null || !(BRAND in error)) return false;
  return code === undefined || (error as unknown as NevertwiceError).code === code;
}
