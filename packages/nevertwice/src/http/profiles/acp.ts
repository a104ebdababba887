/** The Agentic Commerce Protocol: every POST needs a key, every response echoes it, and 5xx responses are never kept. */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody } from "../problem.ts";
import type { AddedHeaders, Profile } from "../profile.ts";
import { nameCodes, objectSchema } from "./flat-body.ts";

const WIRE_CODES: Partial<Record<ErrorCode, string>> = {
  "key-missing": "idempotency_key_required",
  conflict: "idempotency_conflict",
  pending: "idempotency_in_flight",
};

const BODY: ProblemBody = {
  wireCode: nameCodes(WIRE_CODES, (code) => `idempotency_${code}`),
  write({ status, detail }, wireCode) {
    const type =
      status === 503 ? "service_unavailable" : status >= 500 ? "processing_error" : "invalid_request";
    return { type, code: wireCode, message: detail };
  },
  schema: (wireCodes) =>
    objectSchema({
      type: { enum: ["invalid_request", "processing_error", "service_unavailable"] },
      code: { enum: wireCodes },
      message: { type: "string" },
    }),
};

/** The characters that every server accepts in a header. */
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
  options: {
    required: true,
    methods: ["POST"],
    keep: { "5xx": "release" },
    retentionMs: DAY_MS,
  },
  problems: { body: BODY },
  retention: { leastMs: DAY_MS },
  added: ECHO,
};
