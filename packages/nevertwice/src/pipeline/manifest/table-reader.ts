/**
 * Reads one table of a manifest key by key. Each value is checked when it is read, and `done` refuses every key that was
 * never read. An invalid value counts as missing, so that the rest is still read and all problems are found at once.
 */

import { nearest } from "../../core/did-you-mean.ts";
import { durationMs } from "../../core/duration.ts";
import { isPlainObject } from "../../core/plain-object.ts";
import type { Report } from "./problem.ts";
import type { Path } from "./toml-lines.ts";

export interface TableReader {
  readonly path: Path;
  has(key: string): boolean;
  /** The unchecked value. */
  value(key: string): unknown;
  text(key: string): string | undefined;
  oneOf<Choice extends string>(key: string, choices: readonly Choice[]): Choice | undefined;
  flag(key: string): boolean | undefined;
  whole(key: string, least: number): number | undefined;
  share(key: string): number | undefined;
  /** In milliseconds, greater than zero. */
  duration(key: string, example: string): number | undefined;
  /** At least one text. The texts are not empty, and no two are equal. */
  texts(key: string, example: string): readonly string[] | undefined;
  table(key: string): TableReader | undefined;
  /** The tables in the table `key`, by the names that the author chose. */
  named(key: string): readonly (readonly [name: string, table: TableReader])[];
  /** All keys, for a table whose keys the author chooses. */
  keys(): readonly string[];
  missing(key: string, fix: string): void;
  wrong(key: string, problem: string, fix: string): void;
  /** Reports every key that was not read. `hints` are fixes for keys that authors may know from other tools. */
  done(hints?: Readonly<Record<string, string>>): void;
}

/** The same hint for several words. */
export function hintsFor(fix: string, words: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(words.map((word) => [word, fix]));
}

const NAME = /^[A-Za-z][\w-]*$/;
export const NAME_FIX = "use letters, digits, - and _, a letter first";

/** Whether a node or a port may have this name. No dots, so that `node.port` is unambiguous. */
export function isName(name: string): boolean {
  return NAME.test(name);
}

export function readTable(
  report: Report,
  source: Readonly<Record<string, unknown>>,
  path: Path = [],
): TableReader {
  const readKeys = new Set<string>();

  function value(key: string): unknown {
    readKeys.add(key);
    return Object.hasOwn(source, key) ? source[key] : undefined;
  }

  const at = (key: string) => [...path, key];
  const wrong = (key: string, problem: string, fix: string) => report(at(key), problem, fix);

  /** The value if it passes. Otherwise it is reported, unless it is missing. */
  function checked<T>(key: string, passes: (found: unknown) => found is T, fix: string): T | undefined {
    const found = value(key);
    if (found === undefined) return undefined;
    if (passes(found)) return found;
    wrong(key, `${shownPath(at(key))} is ${shown(found)}`, fix);
    return undefined;
  }

  function oneOf<Choice extends string>(key: string, allowed: readonly Choice[]): Choice | undefined {
    const found = value(key);
    const near = typeof found === "string" ? nearest(found, allowed) : undefined;
    const list = allowed.map((choice) => `"${choice}"`).join(", ");
    return checked(
      key,
      (choice): choice is Choice => allowed.includes(choice as Choice),
      near === undefined ? `write one of ${list}` : `write "${near}"`,
    );
  }

  function duration(key: string, example: string): number | undefined {
    const text = checked(key, isText, `write text with a unit, e.g. "${example}"`);
    if (text === undefined) return undefined;
    try {
      const ms = durationMs(key, text);
      if (ms > 0) return ms;
      wrong(key, `${shownPath(at(key))} is zero`, `write more, e.g. "${example}", or leave it out`);
    } catch {
      wrong(
        key,
        `${shownPath(at(key))} is ${shown(text)}`,
        `write whole numbers with units (d, h, m, s, ms), the largest first, e.g. "${example}"`,
      );
    }
    return undefined;
  }

  function texts(key: string, example: string): readonly string[] | undefined {
    const list = checked(key, isList, `write a list, e.g. ${example}`);
    if (list === undefined) return undefined;
    if (list.length === 0) wrong(key, `${shownPath(at(key))} is empty`, `name at least one, e.g. ${example}`);
    for (const [index, item] of list.entries()) {
      const place = [...at(key), index];
      if (!isText(item))
        report(place, `${shownPath(place)} is ${shown(item)}`, `write text, e.g. ${example}`);
      else if (list.indexOf(item) < index)
        report(place, `${shown(item)} is listed twice`, "remove one of them");
    }
    return list.length > 0 && list.every(isText) && new Set(list).size === list.length ? list : undefined;
  }

  function table(key: string): TableReader | undefined {
    const found = checked(key, isPlainObject, `make it a table, e.g. [${shownPath(at(key))}]`);
    return found === undefined ? undefined : readTable(report, found, at(key));
  }

  function named(key: string): readonly (readonly [string, TableReader])[] {
    const found = checked(key, isPlainObject, `make it a table, e.g. [${shownPath(at(key))}]`);
    return Object.entries(found ?? {}).map(([name, inner]) => {
      const place = [...at(key), name];
      if (!isName(name)) report(place, `${shown(name)} is not a name`, NAME_FIX);
      if (isPlainObject(inner)) return [name, readTable(report, inner, place)] as const;
      report(place, `${shownPath(place)} is ${shown(inner)}`, "make it a table: { … }");
      return [name, readTable(report, {}, place)] as const;
    });
  }

  function done(hints: Readonly<Record<string, string>> = {}): void {
    for (const key of Object.keys(source)) {
      if (readKeys.has(key)) continue;
      const near = nearest(key, readKeys);
      const hint = Object.hasOwn(hints, key) ? hints[key] : undefined;
      const known = `write one of ${[...readKeys].join(", ")}, or remove it`;
      const fix = hint ?? (near === undefined ? known : `write ${near}, or remove it`);
      wrong(key, `${shownPath(at(key))} is unknown`, fix);
    }
  }

  return {
    path,
    value,
    oneOf,
    duration,
    texts,
    table,
    named,
    wrong,
    done,
    has: (key) => value(key) !== undefined,
    text: (key) => checked(key, isText, "write text in quotes that is not empty"),
    flag: (key) => checked(key, isFlag, "write true or false"),
    whole: (key, least) => checked(key, isWholeFrom(least), `write a whole number from ${least}`),
    share: (key) => checked(key, isShare, "write a number from 0 to 1"),
    keys: () => Object.keys(source),
    missing: (key, fix) => report(path, `${shownPath(at(key))} is missing`, fix),
  };
}

export function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

function isFlag(value: unknown): value is boolean {
  return typeof value === "boolean";
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}

function isShare(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 1;
}

/** The largest list or counter. A larger number is a mistake of units. */
const MOST = 2 ** 32;

function isWholeFrom(least: number): (value: unknown) => value is number {
  return (value): value is number =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= MOST;
}

/** `edges[0].to`. */
export function shownPath(path: Path): string {
  return path
    .map((part, index) => (typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join("");
}

export function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return isPlainObject(value) ? "a table" : "an object";
  if (typeof value === "function") return "a function";
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
