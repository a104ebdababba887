/**
 * Values as they stand in the text of a statement: as digits or as hexadecimal bytes and in no other way, so neither the
 * character set of a connection nor its SQL mode nor its driver's settings can change them.
 */
import { NevertwiceError } from "../../core/errors.ts";

/** The server's clock when the statement began. The same for the whole statement, so an index can be used with it. */
export const STATEMENT_US = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
/**
 * The server's clock when it is evaluated: in a SET, after the row's lock. SYSDATE() alone is local time, which the end
 * of summer time gives twice; as a distance from NOW() it has no time zone, and is never negative.
 */
export const NOW_US = `(${STATEMENT_US} + GREATEST(0, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))))`;

/** Ids, tokens, fingerprints and marks. A server that is not strict would cut a longer one and call it stored. */
export const MAX_SHORT_BYTES = 255;

export function bytes(text: string | undefined): string {
  return text === undefined ? "NULL" : `X'${Buffer.from(text, "utf8").toString("hex")}'`;
}

export function short(text: string | undefined): string {
  const literal = bytes(text);
  if (literal.length - "X''".length <= MAX_SHORT_BYTES * 2) return literal;
  throw new NevertwiceError(
    "options-invalid",
    `${text?.slice(0, 20)}… is longer than the ${MAX_SHORT_BYTES} bytes that the MySQL store takes.`,
  );
}

export function whole(value: number): string {
  if (Number.isSafeInteger(value)) return String(value);
  throw new NevertwiceError("options-invalid", `${value} is no whole number.`);
}

export const TABLE_OPTIONS = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC";
