/**
 * The checks of the client's options. They are not those of `core/option-checks.ts`, which suggest the option that was
 * probably meant: here an error lists the options instead, since a page has to load what it finds them with.
 */
import { HUNDRED_YEARS_MS } from "../core/option-checks.ts";
import { shown } from "../core/shown.ts";
import { optionsInvalid } from "./client-error.ts";

/** Throws `options-invalid` with the name of the option if the value is wrong. */
export type OptionRule = (name: string, value: unknown) => void;

export type OptionRules<Options> = { readonly [Name in keyof Options]-?: OptionRule };

/** An option that is undefined counts as not given. */
export function applyRules<Options extends object>(options: Options, rules: OptionRules<Options>): void {
  isObject("options", options);
  for (const name in options) {
    const value = options[name];
    if (value === undefined) continue;
    if (!Object.hasOwn(rules, name))
      throw optionsInvalid(
        `there is no option called "${name}"; there are ${Object.keys(rules).join(", ")}.`,
      );
    rules[name](name, value);
  }
}

/** `expected` completes the sentence "it must be …". */
export function valueThat(isValid: (value: unknown) => boolean, expected: string): OptionRule {
  return (name, value) => {
    if (!isValid(value)) throw optionsInvalid(`${name} is ${shown(value)}; it must be ${expected}.`);
  };
}

const isObject = /* @__PURE__ */ valueThat(
  (value) => typeof value === "object" && value !== null,
  "an object",
);

export const isFunction: OptionRule = /* @__PURE__ */ valueThat(
  (value) => typeof value === "function",
  "a function",
);

export function wholeFrom(least: number): OptionRule {
  return valueThat(
    (value) =>
      Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= HUNDRED_YEARS_MS,
    `a whole number from ${least} to ${HUNDRED_YEARS_MS}`,
  );
}

export function matches(pattern: RegExp): (value: unknown) => boolean {
  return (value) => typeof value === "string" && pattern.test(value);
}

export function listWhere(isOne: (value: unknown) => boolean, expected: string): OptionRule {
  return valueThat((value) => Array.isArray(value) && value.every(isOne), `a list of ${expected}`);
}

export function objectWith(...methods: readonly string[]): OptionRule {
  return valueThat(
    (value) =>
      methods.every((name) => typeof (value as Record<string, unknown> | null)?.[name] === "function"),
    `an object with ${methods.join("(), ")}()`,
  );
}
