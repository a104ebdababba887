/** Every error this library makes on its own: one class, one table of codes. docs/errors.md explains each code. */

interface CodeRow {
  /** The HTTP status a surface answers with. */
  readonly status: number;
  /** Whether sending the very same request again can succeed without anyone changing anything. */
  readonly retryable: boolean;
}

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

export type ErrorCode = keyof typeof ERROR_CODES;

const BRAND = Symbol.for("nevertwice.error");

/** Recognise it with `isNevertwiceError(error, code?)`, which works across copies of this package, not by `instanceof`. */
export class NevertwiceError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  /** The fence of the lapsed claim, on `unknown`: what `guard.resolve` wants to see. */
  declare readonly fence?: number;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; fence?: number } = {}) {
    super(`${code}: ${message}`, "cause" in options ? { cause: options.cause } : undefined);
    const row: CodeRow = ERROR_CODES[code];
    this.code = code;
    this.status = row.status;
    this.retryable = row.retryable;
    if (options.fence !== undefined) this.fence = options.fence;
    Object.defineProperty(this, BRAND, { value: true });
  }
}

// On the prototype, as Error's own name is: an own property would be printed with every error.
Object.defineProperty(NevertwiceError.prototype, "name", { value: "NevertwiceError", configurable: true });

/** True for an error of this library, from any copy of it; with `code`, only for that code. */
export function isNevertwiceError(error: unknown, code?: ErrorCode): error is NevertwiceError {
  if (typeof error !== "object" || error === null || !(BRAND in error)) return false;
  return code === undefined || (error as unknown as NevertwiceError).code === code;
}
