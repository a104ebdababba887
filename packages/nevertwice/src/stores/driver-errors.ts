/**
 * The one translation of driver errors to ours. Each store describes the errors of its driver and its server as a table of
 * rules (`x/errors.ts`), and this file applies it. What the codes mean to a caller:
 *
 *   unavailable      the server cannot be reached or is too busy; a guard may be configured to run without the store
 *   store-unsafe     the server answered, but the store cannot be used safely; no guard may run without it
 *   store-full       the server has no room left
 *   options-invalid  the value that the caller handed in cannot be stored
 *
 * An error that matches no rule and has no `otherwise` is returned unchanged.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";

export type TranslatedCode = "unavailable" | "store-unsafe" | "store-full" | "options-invalid";

/** What an error means to the caller. */
export interface DriverErrorMeaning {
  readonly code: TranslatedCode;
  /** What went wrong and what to do about it, for people. */
  readonly says: string;
  /**
   * True if the statement changed nothing because of concurrent work (a deadlock, a duplicate key, a lock): the same call
   * may succeed when it is repeated.
   */
  readonly repeat?: boolean;
}

/** Matches an error by one of its codes, by its text, or, where both are given, by both. */
export interface DriverErrorRule extends DriverErrorMeaning {
  /** A list of exact codes, or a pattern for one. */
  readonly codes?: readonly (string | number)[] | RegExp;
  readonly text?: RegExp;
}

/** How one driver's errors are read, and what they mean. */
export interface DriverErrorTable {
  /** In order: the first rule that matches counts. */
  readonly rules: readonly DriverErrorRule[];
  /** Every code by which the driver or the server names this error: an errno, a SQLSTATE, the name of an exception. */
  codesOf(error: unknown): readonly unknown[];
  /** The text that rules are matched with; default: the error's message. */
  textOf?(error: unknown): string;
  /** The meaning of an error that matches no rule, usually one that the server answered; undefined: not ours to judge. */
  otherwise?(error: unknown): DriverErrorMeaning | undefined;
  /** The message of the translated error; default: `says`, with the driver's message in parentheses. */
  messageOf?(says: string, error: unknown): string;
}

/** The operating system's codes for a connection that cannot be made or was lost. */
export const CONNECTION_CODES = /^E(?:CONN|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN|HOST|NET)/;

/** The error as one of ours, with the driver's as its `cause`. An error that is ours already is returned unchanged. */
export function translateDriverError(error: unknown, table: DriverErrorTable): unknown {
  if (isNevertwiceError(error)) return error;
  const meaning = driverErrorMeaning(error, table);
  if (meaning === undefined) return error;
  const message = table.messageOf?.(meaning.says, error) ?? `${meaning.says} (${driverMessage(error)})`;
  return new NevertwiceError(meaning.code, message, { cause: error });
}

/** Whether the same call may succeed when it is repeated. Takes a driver's error or its translation. */
export function isRepeatable(error: unknown, table: DriverErrorTable): boolean {
  const original = isNevertwiceError(error) ? error.cause : error;
  return original !== undefined && driverErrorMeaning(original, table)?.repeat === true;
}

function driverErrorMeaning(error: unknown, table: DriverErrorTable): DriverErrorMeaning | undefined {
  const codes = table.codesOf(error);
  const text = table.textOf?.(error) ?? driverMessage(error);
  const rule = table.rules.find((each) => matches(each, codes, text));
  return rule ?? table.otherwise?.(error);
}

function matches(rule: DriverErrorRule, codes: readonly unknown[], text: string): boolean {
  if (rule.text !== undefined && !rule.text.test(text)) return false;
  const { codes: wanted } = rule;
  if (wanted === undefined) return rule.text !== undefined;
  if (wanted instanceof RegExp) return codes.some((code) => typeof code === "string" && wanted.test(code));
  return codes.some((code) => wanted.includes(code as string | number));
}

/** What the driver itself said. */
export function driverMessage(error: unknown): string {
  return String((error as { readonly message?: unknown } | null | undefined)?.message ?? error ?? "");
}
