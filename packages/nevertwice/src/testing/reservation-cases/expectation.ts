/** The assertions of the cases for reservation stores, which need no test runner. */
import { type ExpectedValue, isAccepted, matcher, unexpected } from "../cases/expect.ts";

export interface Expectation {
  /** Equal in all members. A member that is undefined equals an absent one. */
  toEqual(wanted: unknown): void;
  toBe(wanted: unknown): void;
  /** Of objects only the members of `wanted` are compared; lists must be as long. */
  toMatchObject(wanted: unknown): void;
  toHaveLength(length: number): void;
}

export function expect(found: unknown, what = "the store answered something else"): Expectation {
  const check = (wanted: unknown, isMet: boolean): void => {
    if (!isMet) throw unexpected(what, wanted, found);
  };
  return {
    toEqual: (wanted) => check(wanted, isAlike(found, wanted, membersOfBoth)),
    toBe: (wanted) => check(wanted, Object.is(found, wanted)),
    toMatchObject: (wanted) => check(wanted, isAlike(found, wanted, membersOfWanted)),
    toHaveLength: (length) =>
      check(`a list of ${length}`, (found as { length?: unknown })?.length === length),
  };
}

type Compared = (found: object, wanted: object) => readonly string[];

const membersOfWanted: Compared = (_, wanted) => Object.keys(wanted);
const membersOfBoth: Compared = (found, wanted) => [
  ...new Set([...Object.keys(found), ...Object.keys(wanted)]),
];

function isAlike(found: unknown, wanted: unknown, compared: Compared): boolean {
  const accepted = isAccepted(found, wanted);
  if (accepted !== undefined) return accepted;
  if (typeof found !== "object" || found === null || typeof wanted !== "object" || wanted === null)
    return Object.is(found, wanted);
  if (Array.isArray(found) !== Array.isArray(wanted)) return false;
  if (Array.isArray(found) && found.length !== (wanted as readonly unknown[]).length) return false;
  const [theirs, ours] = [found, wanted] as Record<string, unknown>[];
  return compared(found, wanted).every((name) => isAlike(theirs?.[name], ours?.[name], compared));
}

export const anyText = matcher("a text", (found) => typeof found === "string");

export function containing(part: string): ExpectedValue {
  return matcher(`a text with ${part}`, (found) => typeof found === "string" && found.includes(part));
}

export function atLeast(least = Number.NaN): ExpectedValue {
  return matcher(`at least ${least}`, (found) => typeof found === "number" && found >= least);
}

/** For races that may end in two ways. */
export function either(one: unknown, other: unknown): ExpectedValue {
  return matcher(`${JSON.stringify(one)} or ${JSON.stringify(other)}`, (found) =>
    [one, other].some((wanted) => isAlike(found, wanted, membersOfBoth)),
  );
}
