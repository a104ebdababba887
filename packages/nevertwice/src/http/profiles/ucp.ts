/** The Universal Commerce Protocol: requests are compared by their bytes, and nothing runs while the store is unavailable. */
import type { ErrorCode } from "../../core/errors.ts";
import type { ProblemBody } from "../problem.ts";
import type { Profile } from "../profile.ts";
import { nameCodes, objectSchema } from "./flat-body.ts";

const WIRE_CODES: Partial<Record<ErrorCode, string>> = { pending: "idempotency_in_flight" };

const BODY: ProblemBody = {
  wireCode: nameCodes(WIRE_CODES, (code) => `idempotency_${code}`),
  write: ({ detail }, wireCode) => ({ code: wireCode, content: detail }),
  schema: (wireCodes) => objectSchema({ code: { enum: wireCodes }, content: { type: "string" } }),
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
