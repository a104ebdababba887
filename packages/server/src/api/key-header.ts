/** The key of a request of the API, read as the HTTP layer reads it: a String of RFC 9651, or bare. */
import { NevertwiceError } from "nevertwice";
import { parseKeyHeader } from "nevertwice/http";
import type { ApiRequest, Parameter } from "./route.ts";

const HEADER = "Idempotency-Key";
/** The longest key that comes in a header. */
const MAX_KEY_LENGTH = 255;

/** Its place in the list of a route's headers. It is checked here, so that what is wrong has its own code. */
export const KEY_HEADER: Readonly<Record<string, Parameter>> = {
  [HEADER]: {
    schema: { type: "string", minLength: 1 },
    required: true,
    isCheckedByRoute: true,
    description: `The key: in double quotes (RFC 9651) or bare, up to ${MAX_KEY_LENGTH} characters.`,
  },
};

export function keyOf({ header }: Pick<ApiRequest, "header">): string {
  const value = header(HEADER);
  if (value === undefined)
    throw new NevertwiceError("key-missing", `send the header ${HEADER} with a key of your own.`);
  const parsed = parseKeyHeader(value, { strict: false });
  if ("problem" in parsed) throw new NevertwiceError("key-invalid", parsed.problem);
  if (parsed.key.length > MAX_KEY_LENGTH)
    throw new NevertwiceError("key-invalid", `the key is longer than ${MAX_KEY_LENGTH} characters.`);
  return parsed.key;
}
