/**
 * The Ad Context Protocol: the key is a member of the body, only successes are kept, and a replay is marked in its body.
 * After its retention, a key is refused as long as its record exists.
 */
import type { ErrorCode } from "../../core/errors.ts";
import { withoutMember } from "../json-member.ts";
import type { ProblemBody } from "../problem.ts";
import type { Profile, ProfileMeaning } from "../profile.ts";
import { nameCodes, objectSchema } from "./flat-body.ts";
import { withReplayedMember } from "./replayed-member.ts";

const WIRE_CODES: Partial<Record<ErrorCode, string>> = {
  "key-missing": "INVALID_REQUEST",
  "key-invalid": "INVALID_REQUEST",
  "fingerprint-invalid": "INVALID_REQUEST",
  "request-invalid": "INVALID_REQUEST",
  "body-too-large": "INVALID_REQUEST",
  conflict: "IDEMPOTENCY_CONFLICT",
  pending: "IDEMPOTENCY_IN_FLIGHT",
  expired: "IDEMPOTENCY_EXPIRED",
  "quota-exceeded": "RATE_LIMITED",
  unavailable: "SERVICE_UNAVAILABLE",
  "store-full": "SERVICE_UNAVAILABLE",
  "guard-closed": "SERVICE_UNAVAILABLE",
};

const SECONDS = { type: "integer", minimum: 1, maximum: 3600 };

/** Clients of this protocol read an error from the envelope or from the payload's list, so it is in both. */
const BODY: ProblemBody = {
  wireCode: nameCodes(WIRE_CODES, (code) => `IDEMPOTENCY_${code.toUpperCase()}`),
  write({ status, detail, retryable }, wireCode, retryAfterSeconds) {
    const recovery = retryable ? "transient" : status < 500 && status !== 403 ? "correctable" : "terminal";
    const retry =
      retryAfterSeconds === undefined
        ? {}
        : { retry_after: retryAfterSeconds, details: { retry_after: retryAfterSeconds } };
    const error = { code: wireCode, message: detail, recovery, ...retry };
    return { status: "failed", adcp_error: error, errors: [error] };
  },
  schema(wireCodes) {
    const error = objectSchema(
      {
        code: { enum: wireCodes },
        message: { type: "string" },
        recovery: { enum: ["transient", "correctable", "terminal"] },
        retry_after: SECONDS,
        details: objectSchema({ retry_after: SECONDS }),
      },
      ["retry_after", "details"],
    );
    return objectSchema({
      status: { const: "failed" },
      adcp_error: error,
      errors: { type: "array", items: error, minItems: 1 },
    });
  },
};

/** The members that may change between retries, in addition to the key. The specification lists exactly these. */
const LEFT_OUT = ["context", "governance_context", "push_notification_config.authentication.credentials"];

const MEANING: ProfileMeaning = {
  of([method, target, kind, value, ...rest]) {
    if (kind !== "json") return [method, target, kind, value, ...rest];
    const left = LEFT_OUT.reduce<unknown>((body, path) => withoutMember(body, path.split(".")), value);
    return [method, target, kind, left, ...rest];
  },
  adds: [],
  leavesOut: LEFT_OUT,
};

const HOUR_MS = 3_600_000;

export const ADCP: Profile = {
  name: "adcp",
  options: {
    required: true,
    methods: ["POST"],
    keyField: "idempotency_key",
    keyPattern: /^[A-Za-z0-9_.:-]{16,255}$/,
    keep: { "3xx": "release", "4xx": "release", "5xx": "release" },
    onFailure: "release",
    onUnavailable: "refuse",
    expired: "refuse",
    retentionMs: 24 * HOUR_MS,
  },
  problems: { body: BODY },
  operation: "adcp",
  retention: { leastMs: HOUR_MS, mostMs: 7 * 24 * HOUR_MS },
  meaning: MEANING,
  replayed: withReplayedMember,
};
