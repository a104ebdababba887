/** Problem details (RFC 9457): the response that the layer sends itself when it refuses a request. */
import { ERROR_CODES, type ErrorCode, type NevertwiceError } from "../core/errors.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";

/** The `title` of each code. It is the same at every occurrence. */
export const PROBLEM_TITLES: Readonly<Record<ErrorCode, string>> = {
  "key-missing": "Idempotency-Key is missing",
  "key-invalid": "Idempotency-Key is not valid",
  "fingerprint-invalid": "The request cannot be fingerprinted",
  "request-invalid": "The request is not valid",
  "not-authenticated": "An access token is needed",
  "signature-invalid": "The signature is not valid",
  "not-authorized": "Not allowed",
  "not-found": "Not found",
  "request-timeout": "The request was not received in time",
  pending: "A request is outstanding for this Idempotency-Key",
  "already-done": "This request was carried out before",
  unknown: "The outcome of an earlier attempt is unknown",
  expired: "The answer for this Idempotency-Key has expired",
  "token-spent": "The token of this claim was given up",
  "concurrent-modification": "Another request has changed the same data",
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
 * Codes whose `detail` is a fixed text instead of the error's message. Messages of our own errors contain no key, body or
 * connection string, but the message of a store or a driver may.
 */
const DETAILS: Partial<Record<ErrorCode, string>> = {
  "scope-missing": "The service could not determine the owner of this request. Nothing was done.",
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

/** How a profile represents a problem on the wire. */
export interface ProblemStyle {
  /** The statuses that differ from our own. */
  readonly status?: Partial<Record<ErrorCode, number>>;
  /** The body, if it is not problem details. */
  readonly body?: ProblemBody;
}

export interface ProblemBody {
  /** The profile's own name of a code. */
  wireCode(code: ErrorCode): string;
  write(problem: Problem, wireCode: string, retryAfterSeconds: number | undefined): unknown;
  /** The JSON Schema of the body, for these names. */
  schema(wireCodes: readonly string[]): object;
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
  /** `type` is this text followed by the code. */
  readonly problemBase: string;
  /** The link to the explanation is this text followed by the code; undefined for no link. */
  readonly documentation: string | undefined;
  readonly style: ProblemStyle;
}

/** The value of `Retry-After`, in seconds. */
const RETRY_AFTER_SECONDS = 1;

/** Among the codes with status 409, only `pending` has a `Retry-After`. Clients recognise it by that. */
export function retryAfterSeconds(code: ErrorCode): number | undefined {
  return ERROR_CODES[code].retryable && code !== "lease-lost" ? RETRY_AFTER_SECONDS : undefined;
}

/** The status of a problem with this code. */
export function problemStatus(code: ErrorCode, style: ProblemStyle): number {
  return style.status?.[code] ?? ERROR_CODES[code].status;
}

export function problemReply(
  error: NevertwiceError,
  settings: ProblemSettings,
  status: number = problemStatus(error.code, settings.style),
): HttpReply {
  const { code, retryable } = error;
  const { problemBase, documentation, style } = settings;
  const link = documentation === undefined ? undefined : documentation + code;
  const problem: Problem = {
    type: problemBase + code,
    title: PROBLEM_TITLES[code],
    status,
    detail: DETAILS[code] ?? toDetail(error),
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
  const body = own === undefined ? problem : own.write(problem, own.wireCode(code), seconds);
  return { kind: "reply", status, headers, body: JSON.stringify(body) };
}

/** The message without its code, starting with a capital letter. */
function toDetail({ code, message }: NevertwiceError): string {
  const text = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The response that the layer would send for this error: for services that send their own refusals in the same form. */
export function problemAnswer(
  error: NevertwiceError,
  { problemBase, documentation }: Omit<ProblemSettings, "style">,
): { readonly status: number; readonly headers: readonly HeaderLine[]; readonly body: string } {
  const { status, headers, body } = problemReply(error, { problemBase, documentation, style: {} });
  return { status, headers, body: body as string };
}
