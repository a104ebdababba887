/**
 * Reads one table key by key. What is there is checked as it is asked for, what nobody asked for is unknown and refused,
 * and a value that is wrong counts as not given: the rest is still read, so that all problems are found at once.
 */
import { durationMs } from "../../core/duration.ts";
import { isTable } from "./document.ts";
import { nearest } from "./near-miss.ts";
import type { Report } from "./problem.ts";
import type { Path } from "./toml-lines.ts";

export interface Table {
  readonly path: Path;
  has(key: string): boolean;
  /** The value as it is. */
  value(key: string): unknown;
  text(key: string): string | undefined;
  oneOf<Word extends string>(key: string, words: readonly Word[]): Word | undefined;
  flag(key: string): boolean | undefined;
  whole(key: string, least: number): number | undefined;
  share(key: string): number | undefined;
  /** Milliseconds, more than none. */
  duration(key: string, example: string): number | undefined;
  /** Texts that are not empty, no two of them equal, at least one. */
  texts(key: string, example: string): readonly string[] | undefined;
  table(key: string): Table | undefined;
  /** One table for each name that the writer chose. */
  named(key: string): readonly (readonly [name: string, table: Table])[];
  /** Of a table whose keys are the writer's own. */
  keys(): readonly string[];
  missing(key: string, fix: string): void;
  wrong(key: string, problem: string, fix: string): void;
  /** Refuses what is left. `hints` say what to do about a key that people bring from elsewhere. */
  done(hints?: Readonly<Record<string, string>>): void;
}

const NAME = /^[A-Za-z][\w-]*$/;
export const NAME_FIX = "use letters, digits, - and _, a letter first";

/** Of a node or a port: `node.port` must be read in one way only. */
export function isName(name: string): boolean {
  return NAME.test(name);
}

export function readTable(report: Report, source: Readonly<Record<string, unknown>>, path: Path = []): Table {
  const asked = new Set<string>();

  function value(key: string): unknown {
    asked.add(key);
    return Object.hasOwn(source, key) ? source[key] : undefined;
  }

  const at = (key: string) => [...path, key];
  const wrong = (key: string, problem: string, fix: string) => report(at(key), problem, fix);

  /** The value if it passes; else it is reported, but for one that is not there. */
  function checked<T>(key: string, passes: (found: unknown) => found is T, fix: string): T | undefined {
    const found = value(key);
    if (found === undefined) return undefined;
    if (passes(found)) return found;
    wrong(key, `${shownPath(at(key))} is ${shown(found)}`, fix);
    return undefined;
  }

  function words<Word extends string>(key: string, allowed: readonly Word[]): Word | undefined {
    const found = value(key);
    const near = typeof found === "string" ? nearest(found, allowed) : undefined;
    const list = allowed.map((word) => `"${word}"`).join(", ");
    return checked(
      key,
      (word): word is Word => allowed.includes(word as Word),
      near === undefined ? `write one of ${list}` : `write "${near}"`,
    );
  }

  function duration(key: string, example: string): number | undefined {
    const text = checked(key, isText, `write text with a unit, e.g. "${example}"`);
    if (text === undefined) return undefined;
    try {
      const ms = durationMs(key, text);
      if (ms > 0) return ms;
      wrong(key, `${shownPath(at(key))} is no time at all`, `write more, e.g. "${example}", or leave it out`);
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
        report(place, `${shown(item)} is there twice`, "take one of them out");
    }
    return list.length > 0 && list.every(isText) && new Set(list).size === list.length ? list : undefined;
  }

  function table(key: string): Table | undefined {
    const found = checked(key, isTable, `make it a table, e.g. [${shownPath(at(key))}]`);
    return found === undefined ? undefined : readTable(report, found, at(key));
  }

  function named(key: string): readonly (readonly [string, Table])[] {
    const found = checked(key, isTable, `make it a table, e.g. [${shownPath(at(key))}]`);
    return Object.entries(found ?? {}).map(([name, inner]) => {
      const place = [...at(key), name];
      if (!isName(name)) report(place, `${shown(name)} is no name`, NAME_FIX);
      if (isTable(inner)) return [name, readTable(report, inner, place)] as const;
      report(place, `${shownPath(place)} is ${shown(inner)}`, "make it a table: { … }");
      return [name, readTable(report, {}, place)] as const;
    });
  }

  function done(hints: Readonly<Record<string, string>> = {}): void {
    for (const key of Object.keys(source)) {
      if (asked.has(key)) continue;
      const near = nearest(key, asked);
      const hint = Object.hasOwn(hints, key) ? hints[key] : undefined;
      const known = `write one of ${[...asked].join(", ")}, or take it out`;
      const fix = hint ?? (near === undefined ? known : `write ${near}, or take it out`);
      wrong(key, `${shownPath(at(key))} is unknown`, fix);
    }
  }

  return {
    path,
    value,
    oneOf: words,
    duration,
    texts,
    table,
    named,
    wrong,
    done,
    has: (key) => value(key) !== undefined,
    text: (key) => checked(key, isText, "write text in quotes, and not none"),
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

/** As many as a list or a counter can have; more is a mistake of units. */
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
  if (typeof value === "object" && value !== null) return isTable(value) ? "a table" : "an object";
  if (typeof value === "function") return "a function";
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
