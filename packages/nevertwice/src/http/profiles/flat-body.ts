/** The flat JSON object that several protocols describe an error with, under names of their own. */
import type { ErrorCode } from "../../core/errors.ts";

/** A code in the spelling of the protocol; what it has no word for gets ours behind a prefix. */
export function wordsOf(
  words: Partial<Record<ErrorCode, string>>,
  other: (code: string) => string,
): (code: ErrorCode) => string {
  return (code) => words[code] ?? other(code.replaceAll("-", "_"));
}

/** The JSON Schema of an object with these members, all of them required but those that are named. */
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
