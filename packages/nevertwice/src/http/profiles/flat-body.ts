/** Helpers for profiles whose errors are plain JSON objects with the protocol's own error codes. */
import type { ErrorCode } from "../../core/errors.ts";

/** Maps our codes to those of the protocol. `other` names the codes that the protocol does not define. */
export function nameCodes(
  names: Partial<Record<ErrorCode, string>>,
  other: (code: string) => string,
): (code: ErrorCode) => string {
  return (code) => names[code] ?? other(code.replaceAll("-", "_"));
}

/** The JSON Schema of an object with these members. All are required except those in `optional`. */
export function objectSchema(
  properties: Readonly<Record<string, object>>,
  optional: readonly string[] = [],
): object {
  return {
    type: "object",
    properties,
    required: Object.keys(properties).filter((name) => !optional.includes(name)),
  };
}
