/**
 * Stripe's API, versions 1 and 2. Version 1 keeps whatever an endpoint answered once it began, 500s too, and takes a key
 * on another endpoint for misuse. Version 2 repeats what failed, and answers what succeeded from today's state, which
 * `replay: current(…)` has to supply: the profile cannot know it.
 */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody } from "../problem.ts";
import type { Profile } from "../profile.ts";
import { objectSchema, wordsOf } from "./flat-body.ts";

const CONFLICT = "idempotency_error";

const WORDS: Partial<Record<ErrorCode, string>> = {
  conflict: CONFLICT,
  pending: "idempotency_key_in_use",
};

const BODY: ProblemBody = {
  word: wordsOf(WORDS, (code) => code),
  write({ status, detail, documentation }, word) {
    const type =
      word === CONFLICT
        ? CONFLICT
        : status >= 500
          ? "api_error"
          : status === 429
            ? "rate_limit_error"
            : "invalid_request_error";
    // A reused key has a type of its own, and no code.
    const code = word === CONFLICT ? {} : { code: word };
    return {
      error: {
        type,
        ...code,
        message: detail,
        ...(documentation === undefined ? {} : { doc_url: documentation }),
      },
    };
  },
  schema(words) {
    const codes = words.filter((word) => word !== CONFLICT);
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

const DAY_MS = 86_400_000;

export const STRIPE_V1: Profile = {
  name: "stripe-v1",
  options: { methods: ["POST"], onFailure: "remember", retentionMs: DAY_MS },
  problems: { status: { conflict: 400 }, body: BODY },
  operation: "stripe-v1",
};

export const STRIPE_V2: Profile = {
  name: "stripe-v2",
  options: {
    methods: ["POST", "DELETE"],
    keep: { "3xx": "release", "4xx": "release", "5xx": "release" },
    onFailure: "release",
    retentionMs: 30 * DAY_MS,
  },
  problems: { status: { conflict: 400 }, body: BODY },
};
