/**
 * The idempotency specification of a service, for machines: what a client must send, what counts as the same request,
 * how long an answer is replayed, and what each refusal means. Made from the very options that the adapter is given.
 */
import type { Engine } from "../core/engine.ts";
import { ERROR_CODES, type ErrorCode } from "../core/errors.ts";
import { decide } from "./decision.ts";
import type { KeepDecision } from "./exchange.ts";
import { isoDuration } from "./iso-duration.ts";
import type { HttpOptions } from "./options.ts";
import { PROBLEM_TITLES, problemStatus, retryAfterSeconds } from "./problem.ts";
import { carriersOf } from "./profile.ts";
import type { ProfileName } from "./profile-names.ts";
import { type Settings, settingsOf } from "./settings.ts";

interface Duration {
  readonly ms: number;
  /** The same as an ISO 8601 duration. */
  readonly duration: string;
}

export interface PolicyError {
  /** What a client is told; with `profile: "ietf"` a code of docs/errors.md. */
  readonly code: string;
  readonly status: number;
  readonly title: string;
  /** Whether the very same request may be sent again; `retryAfterSeconds` says when, as does `Retry-After`. */
  readonly retry: boolean;
  readonly retryAfterSeconds?: number;
}

/** Only plain JSON values, always in this order. A change that readers must know of changes `version`. */
export interface IdempotencyPolicy {
  readonly version: 1;
  readonly profile: ProfileName;
  readonly key: {
    readonly in: "header" | "body";
    readonly name: string;
    /** Further headers that go with it. */
    readonly with: readonly string[];
    /** `string` is RFC 9651's; `string-or-bare` takes the bare value too, as the same key; `text` is the text itself. */
    readonly format: "string" | "string-or-bare" | "text";
    readonly maxLength: number;
    readonly pattern?: string;
    readonly required: boolean;
    readonly methods: readonly string[];
    /** What the key is for: `method-and-path`, a name, or `chosen` by the service request by request. */
    readonly operation: string;
    readonly scope: "caller" | "anyone";
  };
  readonly sameRequest: {
    /** Method and target (path and query) count wherever the body does. */
    readonly compared: boolean;
    readonly body: "json" | "raw" | "content-digest" | "none" | "fields";
    readonly fields?: readonly string[];
    readonly leavesOut: readonly string[];
    readonly adds: readonly string[];
    readonly maxBodyBytes: number;
  };
  readonly retention: Duration & {
    readonly from: "completion" | "claim";
    /** What becomes of a key after that: it runs anew, or it is refused for a time. */
    readonly expired: "run" | "refuse";
    readonly refusedFor?: Duration;
  };
  readonly running: {
    readonly lease: Duration;
    /** What a duplicate gets meanwhile. */
    readonly duplicate: "refused" | "waits";
    readonly waits?: Duration;
    /** Whether a request that went silent is tried again after its lease, or held for a decision. */
    readonly lapsed: "takeover" | "hold";
  };
  readonly replay: {
    readonly answer: "snapshot" | "current" | "refused";
    readonly markedBy: string;
    readonly headers: readonly string[];
    /** What becomes of the key after an answer: a class of statuses, then what is otherwise in it. */
    readonly statuses: readonly { readonly status: string; readonly outcome: KeepDecision }[];
    /** Whether the answer itself may decide otherwise. */
    readonly byAnswer: boolean;
  };
  readonly errors: readonly PolicyError[];
}

/** Fails with `options-invalid` as the adapter would. */
export function idempotencyPolicy<Native>(guard: Engine, options: HttpOptions<Native>): IdempotencyPolicy {
  const settings = settingsOf(guard, options);
  return {
    version: 1,
    profile: settings.profile.name,
    key: keyOf(settings),
    sameRequest: sameRequestOf(settings),
    retention: retentionOf(settings),
    running: runningOf(settings),
    replay: replayOf(settings),
    errors: refusalsOf(settings).map(({ code, status }) => errorOf(settings, code, status)),
  };
}

function keyOf<Native>(settings: Settings<Native>): IdempotencyPolicy["key"] {
  const { keyField, header, strict, keyPattern, operation = settings.profile.operation, profile } = settings;
  const isText = keyField !== undefined || profile.key !== undefined;
  return {
    in: keyField === undefined ? "header" : "body",
    name: keyField ?? header,
    with: keyField === undefined ? carriersOf(profile, header).slice(1) : [],
    format: isText ? "text" : strict ? "string" : "string-or-bare",
    maxLength: settings.maxKeyLength,
    ...(keyPattern === undefined ? {} : { pattern: keyPattern.source }),
    required: settings.required,
    methods: [...settings.methods],
    operation: typeof operation === "function" ? "chosen" : (operation ?? "method-and-path"),
    scope: settings.scope === "anyone" ? "anyone" : "caller",
  };
}

function sameRequestOf<Native>(settings: Settings<Native>): IdempotencyPolicy["sameRequest"] {
  const { fingerprint: how, keyField, maxBodyBytes, profile } = settings;
  const compared = how !== "none";
  const isJson = how === "json";
  return {
    compared,
    body: typeof how === "object" ? "fields" : how,
    ...(typeof how === "object" ? { fields: [...how.fields] } : {}),
    leavesOut: isJson
      ? [...(keyField === undefined ? [] : [keyField]), ...(profile.meaning?.leavesOut ?? [])]
      : [],
    adds: compared ? [...(profile.meaning?.adds ?? [])] : [],
    maxBodyBytes,
  };
}

function retentionOf<Native>(settings: Settings<Native>): IdempotencyPolicy["retention"] {
  const { retentionMs, expired, refuseMs, guard } = settings;
  return {
    ...durationOf(retentionMs),
    from: guard.policy.retentionFrom,
    expired,
    ...(expired === "refuse" ? { refusedFor: durationOf(refuseMs) } : {}),
  };
}

function runningOf<Native>({ guard }: Settings<Native>): IdempotencyPolicy["running"] {
  const { leaseMs, onPending, waitMs, onLapsed } = guard.policy;
  return {
    lease: durationOf(leaseMs),
    duplicate: onPending === "wait" ? "waits" : "refused",
    ...(onPending === "wait" ? { waits: durationOf(waitMs) } : {}),
    lapsed: onLapsed,
  };
}

function durationOf(ms: number): Duration {
  return { ms, duration: isoDuration(ms) };
}

/** Those that need not be named in `replayHeaders`. */
const REPLAYED_HEADERS = ["Content-*", "ETag", "Last-Modified", "Link", "Location"];

function replayOf<Native>(settings: Settings<Native>): IdempotencyPolicy["replay"] {
  const { replay, replayedHeader, replayHeaders, guard, keep } = settings;
  const { onCompleted, onFailure } = guard.policy;
  return {
    answer: onCompleted === "reject" ? "refused" : replay === "snapshot" ? "snapshot" : "current",
    markedBy: replayedHeader,
    headers: [...REPLAYED_HEADERS, ...replayHeaders],
    statuses: statusesOf(settings),
    byAnswer: typeof keep === "function" || typeof onFailure === "function",
  };
}

const CLASSES = [2, 3, 4, 5];

function statusesOf<Native>({ keep, guard }: Settings<Native>): IdempotencyPolicy["replay"]["statuses"] {
  const { onFailure } = guard.policy;
  const failed = typeof onFailure === "function" ? "release" : onFailure;
  const ruled = typeof keep === "function" ? undefined : keep;
  const decisionFor = (status: number) =>
    decide<unknown>({ status, headers: [], body: undefined }, ruled, undefined, () => failed);
  return CLASSES.flatMap((first) => {
    const all = Array.from({ length: 100 }, (_, i) => {
      const status = first * 100 + i;
      return { status: String(status), outcome: decisionFor(status) };
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

/** What a client can meet under these settings, by status. What only a mistake of the service leads to is left out. */
export function refusalsOf<Native>(settings: Settings<Native>): readonly PossibleRefusal[] {
  const { profile, guard, fingerprint: how } = settings;
  const isCompared = how !== "none";
  const isBodyRead = settings.keyField !== undefined || (isCompared && how !== "content-digest");
  const possible: Partial<Record<ErrorCode, boolean>> = {
    "key-missing": settings.required,
    "key-invalid": true,
    "fingerprint-invalid": isCompared,
    "request-invalid": settings.scope !== "anyone" || typeof settings.operation === "function",
    "not-authorized": settings.authorize !== undefined,
    pending: true,
    "already-done": guard.policy.onCompleted === "reject",
    unknown: guard.policy.onLapsed === "hold",
    expired: settings.expired === "refuse",
    "body-too-large": isBodyRead,
    conflict: isCompared,
    "quota-exceeded": settings.quota !== undefined,
    "lease-lost": true,
    "not-kept": true,
    unavailable: true,
    "store-full": true,
    "guard-closed": true,
  };
  const codes = (Object.keys(possible) as ErrorCode[]).filter((code) => possible[code] === true);
  const own = codes.map((code) => ({ code, status: problemStatus(code, profile.problems) }));
  const more = (settings.keyField === undefined ? profile.key?.refusals : undefined) ?? [];
  const isNew = ({ code, status }: PossibleRefusal) =>
    !own.some((known) => known.code === code && known.status === status);
  return [...own, ...more.filter(isNew)].sort((a, b) => a.status - b.status);
}

/** What a code is called on the wire. */
export function wordOf<Native>({ profile }: Settings<Native>, code: ErrorCode): string {
  return profile.problems.body?.word(code) ?? code;
}

function errorOf<Native>(settings: Settings<Native>, code: ErrorCode, status: number): PolicyError {
  const seconds = retryAfterSeconds(code);
  return {
    code: wordOf(settings, code),
    status,
    title: PROBLEM_TITLES[code],
    retry: ERROR_CODES[code].retryable,
    ...(seconds === undefined ? {} : { retryAfterSeconds: seconds }),
  };
}
