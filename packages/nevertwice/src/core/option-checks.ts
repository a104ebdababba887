/**
 * Checks for options that every part of the library shares. Each check takes the name and the value of one option, and
 * throws `options-invalid` with that name if the value is wrong.
 */
import type { Clock } from "./clock.ts";
import { didYouMean } from "./did-you-mean.ts";
import { NevertwiceError } from "./errors.ts";
import { shown } from "./shown.ts";

export type Check = (name: string, value: unknown) => void;

/** A hundred years in milliseconds: the largest number that an option may be. A larger one has the wrong unit. */
export const HUNDRED_YEARS_MS = 3_155_760_000_000;

export function wholeFrom(least: number): Check {
  return (name, value) => {
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= HUNDRED_YEARS_MS)
      return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${shown(value)}; it must be a whole number from ${least} to ${HUNDRED_YEARS_MS}.`,
    );
  };
}

export function oneOf(...allowed: readonly string[]): Check {
  return (name, value) => {
    if (allowed.includes(value as string)) return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is ${shown(value)}; it must be ${allowed.map((a) => `"${a}"`).join(" or ")}.`,
    );
  };
}

export function isText(name: string, value: unknown): void {
  if (typeof value === "string" && value !== "") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} is ${shown(value)}; it must be a string that is not empty.`,
  );
}

export function isBoolean(name: string, value: unknown): void {
  if (typeof value === "boolean") return;
  throw new NevertwiceError("options-invalid", `${name} must be true or false; it is ${shown(value)}.`);
}

export function isClock(name: string, value: unknown): void {
  if (typeof (value as Clock | null)?.now === "function") return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an object with a now() that answers milliseconds.`,
  );
}

export function isFunction(name: string, value: unknown): void {
  if (typeof value === "function") return;
  throw new NevertwiceError("options-invalid", `${name} is ${shown(value)}; it must be a function.`);
}

/**
 * Checks each member of `options` with the check of the same name. An option that is undefined counts as not given. An
 * option that has no check is refused: ignoring a misspelt option would silently ignore what its author relies on.
 */
export function checkOptions(options: object, checks: Readonly<Record<string, Check>>): void {
  if (typeof options !== "object" || options === null)
    throw new NevertwiceError(
      "options-invalid",
      `the options are ${shown(options)}; they must be an object.`,
    );
  for (const name in options) {
    const value = (options as Record<string, unknown>)[name];
    if (value === undefined) continue;
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined)
      throw new NevertwiceError(
        "options-invalid",
        `there is no option called ${JSON.stringify(name)}.${didYouMean(name, Object.keys(checks))}`,
      );
    check(name, value);
  }
}

/** Options without a member that is undefined. */
export type GivenOptions<Options> = { [Name in keyof Options]: Exclude<Options[Name], undefined> };

/** The options that were given: a copy without the members that are undefined. */
export function givenOptions<Options extends object>(options: Options): GivenOptions<Options> {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as GivenOptions<Options>;
}
