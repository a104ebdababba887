/**
 * The idempotency policy of a service as a JSON document: what a client must send, what counts as the same request, how
 * long a response is replayed, and what each refusal means. It is created from the options of the adapter.
 */
import type { Engine } from "../core/engine.ts";
import { ERROR_CODES, type ErrorCode } from "../core/errors.ts";
import type { KeepDecision } from "./http-attempt.ts";
import { isoDuration } from "./iso-duration.ts";
import { decide } from "./keep-decision.ts";
import type { HttpOptions } from "./options.ts";
import { PROBLEM_TITLES, problemStatus, retryAfterSeconds } from "./problem.ts";
import { listKeyHeaders } from "./profile.ts";
import type { ProfileName } from "./profile-names.ts";
import { type ResolvedHttpOptions, resolveHttpOptions } from "./resolved-options.ts";

interface Duration {
  readonly ms: number;
  /** The same as an ISO 8601 duration. */
  readonly duration: string;
}

/** An error that a client of the route may get. */
export interface PolicyError {
  /** The code on the wire. With `profile: "ietf"`, it is an `ErrorCode`. */
  readonly code: string;
  /** The HTTP status. */
  readonly status: number;
  /** A short title. */
  readonly title: string;
  /** Whether the same request may be sent again. `retryAfterSeconds` is the least value of `Retry-After`. */
  readonly retry: boolean;
  /** What `Retry-After` says, in seconds; absent if the header is not sent. */
  readonly retryAfterSeconds?: number;
}

/** Plain JSON values, always in this order. `version` changes with every incompatible change of the format. */
export interface IdempotencyPolicy {
  readonly version: 1;
  /** The service whose rules apply where services differ. */
  readonly profile: ProfileName;
  /** Where the key is, and what it must look like. */
  readonly key: {
    /** Whether a header or a member of the body carries the key. */
    readonly in: "header" | "body";
    /** The name of the header or of the member. */
    readonly name: string;
    /** Headers that must accompany it. */
    readonly with: readonly string[];
    /** `string`: an RFC 9651 String. `string-or-bare`: the value without quotes is the same key. `text`: plain text. */
    readonly format: "string" | "string-or-bare" | "text";
    /** The longest key, in characters. */
    readonly maxLength: number;
    /** The source of the regular expression that a key must match; absent if there is none. */
    readonly pattern?: string;
    /** Whether a request without a key is refused. */
    readonly required: boolean;
    /** The methods on which a key counts. */
    readonly methods: readonly string[];
    /** The operation of the key: `method-and-path`, a fixed name, or `chosen` by the service for each request. */
    readonly operation: string;
    /** Whether keys belong to the caller, or to everyone. */
    readonly scope: "caller" | "anyone";
  };
  /** When two requests with the same key are the same request. */
  readonly sameRequest: {
    /** Whether requests are compared. If so, method, path and query count too. */
    readonly compared: boolean;
    /** What of the body is compared. */
    readonly body: "json" | "raw" | "content-digest" | "none" | "fields" | "chosen";
    /** The members that are compared, if `body` is `fields`. */
    readonly fields?: readonly string[];
    /** The members that are left out of the comparison. */
    readonly leavesOut: readonly string[];
    /** The headers that are compared too. */
    readonly adds: readonly string[];
    /** The largest body that is read, in bytes. */
    readonly maxBodyBytes: number;
  };
  /** How long an answer is kept. */
  readonly retention: Duration & {
    /** When the retention begins. */
    readonly from: "completion" | "claim";
    /** What happens to a key after that: it runs again, or it is refused for some time. */
    readonly expired: "run" | "refuse";
    /** How long a key is refused after that; absent if it runs again. */
    readonly refusedFor?: Duration;
  };
  /** What happens while the first request runs. */
  readonly running: {
    /** How long a crashed request blocks its key. */
    readonly lease: Duration;
    /** What happens to a duplicate while the first request runs. */
    readonly duplicate: "refused" | "waits";
    /** How long a duplicate waits; absent if it is refused at once. */
    readonly waits?: Duration;
    /** After its lease has ended, a request may be taken over, or is held for a decision. */
    readonly lapsed: "takeover" | "hold";
  };
  /** What a duplicate gets once the first request is done. */
  readonly replay: {
    /** The first answer, one from the current state, or a refusal. */
    readonly answer: "snapshot" | "current" | "refused";
    /** The header that marks a replay. */
    readonly markedBy: string;
    /** The headers that are replayed besides those that always are. */
    readonly headers: readonly string[];
    /** What happens to the key after a response: each class of statuses, followed by its exceptions. */
    readonly statuses: readonly {
      /** The status, or a class of them such as `5xx`. */
      readonly status: string;
      /** What happens to the key after an answer with this status. */
      readonly outcome: KeepDecision;
    }[];
    /** Whether a function of the service may decide differently for single responses. */
    readonly byAnswer: boolean;
  };
  /** The errors that a client may get, with their statuses. */
  readonly errors: readonly PolicyError[];
}

/**
 * Describes the rules of a route as plain JSON, for its clients.
 * @throws `options-invalid`
 */
export function idempotencyPolicy<Native>(guard: Engine, options: HttpOptions<Native>): IdempotencyPolicy {
  const resolved = resolveHttpOptions(guard, options);
  return {
    version: 1,
    profile: resolved.profile.name,
    key: describeKey(resolved),
    sameRequest: describeSameRequest(resolved),
    retention: describeRetention(resolved),
    running: describeRunning(resolved),
    replay: describeReplay(resolved),
    errors: listRefusals(resolved).map(({ code, status }) => toPolicyError(resolved, code, status)),
  };
}

function describeKey<Native>(options: ResolvedHttpOptions<Native>): IdempotencyPolicy["key"] {
  const { keyField, header, strict, keyPattern, operation = options.profile.operation, profile } = options;
  const isText = keyField !== undefined || profile.key !== undefined;
  return {
    in: keyField === undefined ? "header" : "body",
    name: keyField ?? header,
    with: keyField === undefined ? listKeyHeaders(profile, header).slice(1) : [],
    format: isText ? "text" : strict ? "string" : "string-or-bare",
    maxLength: options.maxKeyLength,
    ...(keyPattern === undefined ? {} : { pattern: keyPattern.source }),
    required: options.required,
    methods: [...options.methods],
    operation: typeof operation === "function" ? "chosen" : (operation ?? "method-and-path"),
    scope: options.scope === "anyone" ? "anyone" : "caller",
  };
}

function describeSameRequest<Native>(options: ResolvedHttpOptions<Native>): IdempotencyPolicy["sameRequest"] {
  const { fingerprint: how, keyField, maxBodyBytes, profile } = options;
  const compared = how !== "none";
  const { fields, of, without = [] } = typeof how === "object" ? how : {};
  const isOwn = typeof how === "function" || of !== undefined;
  const isJson = how === "json" || (without.length > 0 && fields === undefined && !isOwn);
  return {
    compared,
    body: typeof how === "string" ? how : fields !== undefined ? "fields" : isOwn ? "chosen" : "json",
    ...(fields === undefined ? {} : { fields: [...fields] }),
    leavesOut: isJson
      ? [...(keyField === undefined ? [] : [keyField]), ...without, ...(profile.meaning?.leavesOut ?? [])]
      : [...without],
    adds: compared ? [...(profile.meaning?.adds ?? [])] : [],
    maxBodyBytes,
  };
}

function describeRetention<Native>(options: ResolvedHttpOptions<Native>): IdempotencyPolicy["retention"] {
  const { retentionMs, expired, refuseMs, guard } = options;
  return {
    ...toDuration(retentionMs),
    from: guard.policy.retentionFrom,
    expired,
    ...(expired === "refuse" ? { refusedFor: toDuration(refuseMs) } : {}),
  };
}

function describeRunning<Native>({ guard }: ResolvedHttpOptions<Native>): IdempotencyPolicy["running"] {
  const { leaseMs, onPending, waitMs, onLapsed } = guard.policy;
  return {
    lease: toDuration(leaseMs),
    duplicate: onPending === "wait" ? "waits" : "refused",
    ...(onPending === "wait" ? { waits: toDuration(waitMs) } : {}),
    lapsed: onLapsed,
  };
}

function toDuration(ms: number): Duration {
  return { ms, duration: isoDuration(ms) };
}

/** The headers that are replayed without `replayHeaders`. */
const REPLAYED_HEADERS = ["Content-*", "ETag", "Last-Modified", "Link", "Location"];

function describeReplay<Native>(options: ResolvedHttpOptions<Native>): IdempotencyPolicy["replay"] {
  const { replay, replayedHeader, replayHeaders, guard, keep } = options;
  const { onCompleted, onFailure } = guard.policy;
  return {
    answer: onCompleted === "reject" ? "refused" : replay === "snapshot" ? "snapshot" : "current",
    markedBy: replayedHeader,
    headers: [...REPLAYED_HEADERS, ...replayHeaders],
    statuses: listStatuses(options),
    byAnswer: typeof keep === "function" || typeof onFailure === "function",
  };
}

const CLASSES = [2, 3, 4, 5];

function listStatuses<Native>({
  keep,
  guard,
}: ResolvedHttpOptions<Native>): IdempotencyPolicy["replay"]["statuses"] {
  const { onFailure } = guard.policy;
  const failed = typeof onFailure === "function" ? "release" : onFailure;
  const byStatus = typeof keep === "function" ? undefined : keep;
  const decideByStatus = (status: number) =>
    decide<unknown>({ status, headers: [], body: undefined }, byStatus, undefined, () => failed);
  return CLASSES.flatMap((first) => {
    const all = Array.from({ length: 100 }, (_, i) => {
      const status = first * 100 + i;
      return { status: String(status), outcome: decideByStatus(status) };
    });
    const usual = mostCommon(all.map(({ outcome }) => outcome));
    return [{ status: `${first}xx`, outcome: usual }, ...all.filter(({ outcome }) => outcome !== usual)];
  });
}

function mostCommon(decisions: readonly KeepDecision[]): KeepDecision {
  const counts = new Map<KeepDecision, number>();
  for (const decision of decisions) counts.set(decision, (counts.get(decision) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] as KeepDecision;
}

export interface PossibleRefusal {
  readonly code: ErrorCode;
  readonly status: number;
}

/** The refusals that a client can get with these options, by status. Refusals for mistakes of the service are left out. */
export function listRefusals<Native>(options: ResolvedHttpOptions<Native>): readonly PossibleRefusal[] {
  const { profile, guard, fingerprint: how } = options;
  const isCompared = how !== "none";
  const isBodyRead = options.keyField !== undefined || (isCompared && how !== "content-digest");
  const possible: Partial<Record<ErrorCode, boolean>> = {
    "key-missing": options.required,
    "key-invalid": true,
    "fingerprint-invalid": isCompared,
    "request-invalid": options.scope !== "anyone" || typeof options.operation === "function",
    "not-authorized": options.authorize !== undefined,
    pending: true,
    "already-done": guard.policy.onCompleted === "reject" || options.onNotKept === "refuse",
    unknown: guard.policy.onLapsed === "hold",
    expired: options.expired === "refuse" || guard.policy.holdForMs !== undefined,
    "body-too-large": isBodyRead,
    conflict: isCompared,
    "quota-exceeded": options.quota !== undefined,
    "lease-lost": true,
    "not-kept": true,
    unavailable: true,
    "store-full": true,
    "guard-closed": true,
  };
  const codes = (Object.keys(possible) as ErrorCode[]).filter((code) => possible[code] === true);
  const own = codes.map((code) => ({ code, status: problemStatus(code, profile.problems) }));
  const more = (options.keyField === undefined ? profile.key?.refusals : undefined) ?? [];
  const isNew = ({ code, status }: PossibleRefusal) =>
    !own.some((known) => known.code === code && known.status === status);
  return [...own, ...more.filter(isNew)].sort((a, b) => a.status - b.status);
}

/** The name of a code on the wire. */
export function wireCode<Native>({ profile }: ResolvedHttpOptions<Native>, code: ErrorCode): string {
  return profile.problems.body?.wireCode(code) ?? code;
}

function toPolicyError<Native>(
  options: ResolvedHttpOptions<Native>,
  code: ErrorCode,
  status: number,
): PolicyError {
  const seconds = retryAfterSeconds(code);
  return {
    code: wireCode(options, code),
    status,
    title: PROBLEM_TITLES[code],
    retry: ERROR_CODES[code].retryable,
    ...(seconds === undefined ? {} : { retryAfterSeconds: seconds }),
  };
}
