/** Problem details (RFC 9457): the response that the layer sends itself when it refuses a request. */
import { ERROR_CODES, type ErrorCode, isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";
import { type OwnRefusal, ownContent } from "./replay.ts";

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
  /** The header that tells clients whether a retry can help, if it is not `X-Should-Retry`. */
  readonly retryHeader?: string;
}

export interface ProblemBody {
  /** The profile's own name of a code. */
  wireCode(code: ErrorCode): string;
  write(problem: Problem, wireCode: string, retryAfterSeconds: number | undefined): unknown;
  /** The JSON Schema of the body, for these names. */
  schema(wireCodes: readonly string[]): object;
}

export interface Problem {
  /** The prefix of problems, followed by the code. */
  readonly type: string;
  /** A short title. */
  readonly title: string;
  /** The HTTP status. */
  readonly status: number;
  /** What went wrong, in a sentence. */
  readonly detail: string;
  /** The error code. */
  readonly code: ErrorCode;
  /** Whether the same request can succeed when it is sent again. */
  readonly retryable: boolean;
  /** A link to the explanation of the code. */
  readonly documentation?: string;
  /** On `pending`: how long the other attempt has run, by the store's clock. */
  readonly elapsedMs?: number;
}

export interface ProblemSettings {
  /** `type` is this text followed by the code. */
  readonly problemBase: string;
  /** The link to the explanation is this text followed by the code; undefined for no link. */
  readonly documentation: string | undefined;
  /** The form of the body that the profile asks for. */
  readonly style: ProblemStyle;
  /** The application's own form of a problem. */
  readonly own?: ((problem: Problem) => OwnRefusal | undefined) | undefined;
}

/** A refusal, with the problem that it represents. Doors whose clients read another form translate the problem. */
interface ProblemReply extends HttpReply {
  readonly problem: Problem;
}

/** Undefined for a replay. */
export function findProblem(reply: HttpReply): Problem | undefined {
  return "problem" in reply ? (reply as ProblemReply).problem : undefined;
}

/** The limits of `Retry-After`, in seconds. */
const SHORTEST_RETRY_AFTER = 1;
const LONGEST_RETRY_AFTER = 30;

/**
 * The value of `Retry-After`, in seconds. It grows with the time that the other attempt has run: clients give up after a few
 * tries, and would otherwise do so while long work is still running. Among the codes with status 409, only `pending` has a
 * `Retry-After`. Clients recognise it by that.
 */
export function retryAfterSeconds(code: ErrorCode, elapsedMs = 0): number | undefined {
  if (!ERROR_CODES[code].retryable || code === "lease-lost") return undefined;
  return Math.min(LONGEST_RETRY_AFTER, Math.max(SHORTEST_RETRY_AFTER, Math.ceil(elapsedMs / 1_000)));
}

/**
 * Tells the client whether sending the same request again can help. The SDKs of Stripe, OpenAI and Anthropic obey it, and
 * guess by the status otherwise: they would repeat every 409 and every 5xx.
 */
export function retryLine({ retryHeader = "x-should-retry" }: ProblemStyle, canHelp: boolean): HeaderLine {
  return [retryHeader, String(canHelp)];
}

/** The status of a problem with this code. */
export function problemStatus(code: ErrorCode, style: ProblemStyle): number {
  return style.status?.[code] ?? ERROR_CODES[code].status;
}

/** The problem that this error is for clients. */
export function describeProblem(
  error: NevertwiceError,
  { problemBase, documentation, style }: Omit<ProblemSettings, "own">,
  status: number = problemStatus(error.code, style),
): Problem {
  const { code, retryable } = error;
  const elapsedMs = isNevertwiceError(error, "pending") ? error.elapsedMs : undefined;
  return {
    type: problemBase + code,
    title: PROBLEM_TITLES[code],
    status,
    detail: DETAILS[code] ?? toDetail(error),
    code,
    retryable,
    ...(documentation === undefined ? {} : { documentation: documentation + code }),
    ...(elapsedMs === undefined ? {} : { elapsedMs: Math.round(elapsedMs) }),
  };
}

export function problemReply(
  error: NevertwiceError,
  settings: ProblemSettings,
  status: number = problemStatus(error.code, settings.style),
): ProblemReply {
  const { style } = settings;
  const problem = describeProblem(error, settings, status);
  const { code, retryable, documentation: link, elapsedMs } = problem;
  const seconds = retryAfterSeconds(code, elapsedMs);
  const replaced = settings.own && ownReply(settings.own, problem, seconds, style);
  if (replaced !== undefined) return { ...replaced, problem };
  const { body: own } = style;
  const headers: HeaderLine[] = [
    ["content-type", own === undefined ? "application/problem+json" : "application/json"],
    ["cache-control", "no-store"],
  ];
  if (own === undefined) headers.push(["content-language", "en"]);
  else if (link !== undefined) headers.push(["link", `<${link}>; rel="describedby"; type="text/html"`]);
  if (seconds !== undefined) headers.push(["retry-after", String(seconds)]);
  headers.push(retryLine(style, retryable));
  const body = own === undefined ? problem : own.write(problem, own.wireCode(code), seconds);
  return { kind: "reply", status, headers, body: JSON.stringify(body), problem };
}

/** Undefined if the application has no form of its own for this problem, or if its function fails: a refusal must be sent. */
function ownReply(
  own: NonNullable<ProblemSettings["own"]>,
  problem: Problem,
  seconds: number | undefined,
  style: ProblemStyle,
): HttpReply | undefined {
  const content = harmless(() => {
    const given = own(problem);
    return given && ownContent(given);
  }) as ReturnType<typeof ownContent> | undefined;
  if (content === undefined) return undefined;
  const advice = retryLine(style, problem.retryable);
  const headers = content.headers.filter(([name]) => !OURS.has(name) && name !== advice[0]);
  headers.push(["cache-control", "no-store"]);
  if (seconds !== undefined) headers.push(["retry-after", String(seconds)]);
  headers.push(advice);
  return { kind: "reply", status: problem.status, headers, body: content.body };
}

/** Clients of every form read these headers. */
const OURS = new Set(["cache-control", "retry-after", "content-length"]);

/** The message without its code, starting with a capital letter. */
function toDetail({ code, message }: NevertwiceError): string {
  const text = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
