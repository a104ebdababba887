/** Problem details (RFC 9457): what the layer itself answers when the handler does not get to. */
import { ERROR_CODES, type ErrorCode, type NevertwiceError } from "../core/errors.ts";
import type { HeaderLine, Reply } from "./exchange.ts";

/** What a client is told about a code, the same at every occurrence. */
export const PROBLEM_TITLES: Readonly<Record<ErrorCode, string>> = {
  "key-missing": "Idempotency-Key is missing",
  "key-invalid": "Idempotency-Key is not valid",
  "fingerprint-invalid": "The request cannot be fingerprinted",
  "request-invalid": "The request is not valid",
  "not-authenticated": "An access token is needed",
  "signature-invalid": "The signature is not valid",
  "not-authorized": "Not allowed",
  "not-found": "There is nothing here",
  "request-timeout": "The request did not come in time",
  pending: "A request is outstanding for this Idempotency-Key",
  "already-done": "This request was carried out before",
  unknown: "The outcome of an earlier attempt is unknown",
  expired: "The answer for this Idempotency-Key has expired",
  "concurrent-modification": "What was to be changed has been changed by another",
  "body-too-large": "The request body is too large",
  conflict: "Idempotency-Key is already used",
  "quota-exceeded": "Too many Idempotency-Keys are in use",
  "scope-missing": "The owner of the Idempotency-Key is not known",
  "lease-lost": "Another attempt took this request over",
  "not-kept": "The request was carried out, but its answer was not kept",
  "sealing-failed": "The kept answer cannot be opened",
  "options-invalid": "The service is not set up properly",
  "manifest-invalid": "The service is not set up properly",
  "driver-missing": "The service is not set up properly",
  "store-unsafe": "The service is not set up properly",
  "internal-error": "The service failed",
  "not-supported": "The service is not set up for this",
  "upstream-lost": "The service behind this one was lost",
  "upstream-unreachable": "The service behind this one cannot be reached",
  unavailable: "Idempotency cannot be ensured at the moment",
  "store-full": "Idempotency cannot be ensured at the moment",
  "guard-closed": "The service is shutting down",
};

/**
 * What a client may read of an error. The messages of our own errors hold no key, body or connection string; those of
 * the store's causes may, so a store that cannot answer is described in our words.
 */
const DETAILS: Partial<Record<ErrorCode, string>> = {
  "scope-missing": "The service could not tell whom this request belongs to. Nothing was done.",
  "options-invalid": "The service refused the request because of its own settings. Nothing was done.",
  "manifest-invalid": "The service refused the request because of its own settings. Nothing was done.",
  "driver-missing": "The service refused the request because of its own settings. Nothing was done.",
  "store-unsafe": "The service refused the request because of its own settings. Nothing was done.",
  unavailable:
    "The service cannot look this key up at the moment. Nothing was done; send the same request again.",
  "store-full":
    "The service cannot take new keys at the moment. Nothing was done; send the same request again.",
  "guard-closed": "The service is shutting down. Nothing was done; send the same request again.",
};

/** What a profile makes of a problem: its own words on the wire for the same code. */
export interface ProblemStyle {
  /** The status where it differs from ours. */
  readonly status?: Partial<Record<ErrorCode, number>>;
  /** The body where it is not problem details. */
  readonly body?: ProblemBody;
}

export interface ProblemBody {
  /** What the profile calls a code. */
  word(code: ErrorCode): string;
  write(problem: Problem, word: string, retryAfterSeconds: number | undefined): unknown;
  /** The JSON Schema of what it writes, for these words. */
  schema(words: readonly string[]): object;
}

export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly documentation?: string;
}

export interface ProblemSettings {
  /** What a code follows in `type`. */
  readonly problemBase: string;
  /** What a code follows in the link to its explanation; undefined for no link. */
  readonly documentation: string | undefined;
  readonly style: ProblemStyle;
}

/** Seconds after which a client that is told to come back may do so. */
const RETRY_AFTER_SECONDS = 1;

/** Of the 409s only `pending` says when to come back: that is how a client tells it from the others. */
export function retryAfterSeconds(code: ErrorCode): number | undefined {
  return ERROR_CODES[code].retryable && code !== "lease-lost" ? RETRY_AFTER_SECONDS : undefined;
}

/** The status that a problem of this code has in this style. */
export function problemStatus(code: ErrorCode, style: ProblemStyle): number {
  return style.status?.[code] ?? ERROR_CODES[code].status;
}

export function problemReply(
  error: NevertwiceError,
  settings: ProblemSettings,
  status: number = problemStatus(error.code, settings.style),
): Reply {
  const { code, retryable } = error;
  const { problemBase, documentation, style } = settings;
  const link = documentation === undefined ? undefined : documentation + code;
  const problem: Problem = {
    type: problemBase + code,
    title: PROBLEM_TITLES[code],
    status,
    detail: DETAILS[code] ?? detailOf(error),
    code,
    retryable,
    ...(link === undefined ? {} : { documentation: link }),
  };
  const { body: own } = style;
  const headers: HeaderLine[] = [
    ["content-type", own === undefined ? "application/problem+json" : "application/json"],
    ["cache-control", "no-store"],
  ];
  if (own === undefined) headers.push(["content-language", "en"]);
  else if (link !== undefined) headers.push(["link", `<${link}>; rel="describedby"; type="text/html"`]);
  const seconds = retryAfterSeconds(code);
  if (seconds !== undefined) headers.push(["retry-after", String(seconds)]);
  const body = own === undefined ? problem : own.write(problem, own.word(code), seconds);
  return { kind: "reply", status, headers, body: JSON.stringify(body) };
}

/** The message without the code in front, as a sentence. */
function detailOf({ code, message }: NevertwiceError): string {
  const text = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A problem as the layer itself would answer it: for a service that answers its own refusals in the same way. */
export function problemAnswer(
  error: NevertwiceError,
  { problemBase, documentation }: Omit<ProblemSettings, "style">,
): { readonly status: number; readonly headers: readonly HeaderLine[]; readonly body: string } {
  const { status, headers, body } = problemReply(error, { problemBase, documentation, style: {} });
  return { status, headers, body: body as string };
}
