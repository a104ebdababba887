/** The Universal Commerce Protocol: the raw bytes decide what is the same, and without a store nothing runs. */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody } from "../problem.ts";
import type { Profile } from "../profile.ts";
import { objectSchema, wordsOf } from "./flat-body.ts";

const WORDS: Partial<Record<ErrorCode, string>> = { pending: "idempotency_in_flight" };

const BODY: ProblemBody = {
  word: wordsOf(WORDS, (code) => `idempotency_${code}`),
  write: ({ detail }, word) => ({ code: word, content: detail }),
  schema: (words) => objectSchema({ code: { enum: words }, content: { type: "string" } }),
};

const DAY_MS = 86_400_000;

export const UCP: Profile = {
  name: "ucp",
  options: {
    methods: ["POST", "PUT", "PATCH", "DELETE"],
    fingerprint: "raw",
    onUnavailable: "refuse",
    retentionMs: 2 * DAY_MS,
  },
  problems: { status: { conflict: 409 }, body: BODY },
  retention: { leastMs: DAY_MS },
};
