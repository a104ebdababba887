/** The Agentic Commerce Protocol: a key on every POST, echoed with every answer; failures of the server are never kept. */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody } from "../problem.ts";
import type { AddedHeaders, Profile } from "../profile.ts";
import { objectSchema, wordsOf } from "./flat-body.ts";

const WORDS: Partial<Record<ErrorCode, string>> = {
  "key-missing": "idempotency_key_required",
  conflict: "idempotency_conflict",
  pending: "idempotency_in_flight",
};

const BODY: ProblemBody = {
  word: wordsOf(WORDS, (code) => `idempotency_${code}`),
  write({ status, detail }, word) {
    const type =
      status === 503 ? "service_unavailable" : status >= 500 ? "processing_error" : "invalid_request";
    return { type, code: word, message: detail };
  },
  schema: (words) =>
    objectSchema({
      type: { enum: ["invalid_request", "processing_error", "service_unavailable"] },
      code: { enum: words },
      message: { type: "string" },
    }),
};

/** What may stand in any header. */
const PRINTABLE = /^[\t\x20-\x7e]+$/;

const ECHO: AddedHeaders = {
  lines: (_answer, header, carried) =>
    carried !== undefined && PRINTABLE.test(carried) ? [[header.toLowerCase(), carried]] : [],
  describe: (header) => ({
    [header]: { description: "The key that the request carried.", schema: { type: "string" } },
  }),
};

const DAY_MS = 86_400_000;

export const ACP: Profile = {
  name: "acp",
  options: { required: true, methods: ["POST"], keep: { "5xx": "release" }, retentionMs: DAY_MS },
  problems: { body: BODY },
  retention: { leastMs: DAY_MS },
  added: ECHO,
};
