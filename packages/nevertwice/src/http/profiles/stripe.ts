/**
 * Stripe's API, versions 1 and 2. Version 1 keeps every response of an endpoint, 500s too, and treats a key on another
 * endpoint as misuse. Version 2 runs failed requests again, and answers a retry of a successful one from the current
 * state. The profile cannot know that state, so the application supplies it by `replay: current(…)`.
 */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody, ProblemStyle } from "../problem.ts";
import type { Profile } from "../profile.ts";
import { nameCodes, objectSchema } from "./flat-body.ts";

const CONFLICT = "idempotency_error";

const WIRE_CODES: Partial<Record<ErrorCode, string>> = {
  conflict: CONFLICT,
  pending: "idempotency_key_in_use",
};

const BODY: ProblemBody = {
  wireCode: nameCodes(WIRE_CODES, (code) => code),
  write({ status, detail, documentation }, wireCode) {
    const type =
      wireCode === CONFLICT
        ? CONFLICT
        : status >= 500
          ? "api_error"
          : status === 429
            ? "rate_limit_error"
            : "invalid_request_error";
    // A reused key has its own type and no code.
    const code = wireCode === CONFLICT ? {} : { code: wireCode };
    return {
      error: {
        type,
        ...code,
        message: detail,
        ...(documentation === undefined ? {} : { doc_url: documentation }),
      },
    };
  },
  schema(wireCodes) {
    const codes = wireCodes.filter((code) => code !== CONFLICT);
    const error = objectSchema(
      {
        type: { enum: [CONFLICT, "api_error", "rate_limit_error", "invalid_request_error"] },
        ...(codes.length === 0 ? {} : { code: { enum: codes } }),
        message: { type: "string" },
        doc_url: { type: "string", format: "uri-reference" },
      },
      ["code", "doc_url"],
    );
    return objectSchema({ error });
  },
};

/** Stripe's SDKs obey this header, and repeat every 409 and 5xx without it. */
const PROBLEMS: ProblemStyle = {
  status: { conflict: 400 },
  body: BODY,
  retryHeader: "stripe-should-retry",
};

const DAY_MS = 86_400_000;

/** The SDK never reads `Retry-After`, and gives up after less than two seconds, so a duplicate has to wait for its answer. */
const WAITS = { onPending: "wait", waitMs: 30_000 } as const;

export const STRIPE_V1: Profile = {
  name: "stripe-v1",
  options: { ...WAITS, methods: ["POST"], onFailure: "remember", retentionMs: DAY_MS },
  problems: PROBLEMS,
  bareKeys: "any",
  operation: "stripe-v1",
};

export const STRIPE_V2: Profile = {
  name: "stripe-v2",
  options: {
    ...WAITS,
    methods: ["POST", "DELETE"],
    keep: { "3xx": "release", "4xx": "release", "5xx": "release" },
    onFailure: "release",
    retentionMs: 30 * DAY_MS,
  },
  problems: PROBLEMS,
  bareKeys: "any",
};
