/** Reads the `Idempotency-Key` header like the HTTP layer does: a String of RFC 9651, or bare text. */
import { NevertwiceError } from "nevertwice";
import { parseKeyHeader } from "nevertwice/http";
import type { ApiRequest, Parameter } from "./route.ts";

const HEADER = "Idempotency-Key";
/** The longest key that comes in a header. */
const MAX_KEY_LENGTH = 255;

/** The header for the list of a route. `readKey` checks it, so that errors are key-missing or key-invalid. */
export const KEY_HEADER: Readonly<Record<string, Parameter>> = {
  [HEADER]: {
    schema: { type: "string", minLength: 1 },
    required: true,
    isCheckedByRoute: true,
    description: `The key: in double quotes (RFC 9651) or bare, up to ${MAX_KEY_LENGTH} characters.`,
  },
};

export function readKey({ header }: Pick<ApiRequest, "header">): string {
  const value = header(HEADER);
  if (value === undefined)
    throw new NevertwiceError("key-missing", `send the header ${HEADER} with a key that you choose.`);
  const parsed = parseKeyHeader(value, { strict: false });
  if ("problem" in parsed) throw new NevertwiceError("key-invalid", parsed.problem);
  if (parsed.key.length > MAX_KEY_LENGTH)
    throw new NevertwiceError("key-invalid", `the key is longer than ${MAX_KEY_LENGTH} characters.`);
  return parsed.key;
}
