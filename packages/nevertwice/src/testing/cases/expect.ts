/** The assertion of the cases, which need no test runner: it compares two values and reports the difference. */

const ACCEPTS = Symbol("accepts");
const UNEXPECTED = Symbol("unexpected");

/** Stands for every value that it accepts, anywhere in an expected value. */
export interface ExpectedValue {
  readonly text: string;
  readonly [ACCEPTS]: (found: unknown) => boolean;
}

/**
 * Throws unless `found` matches `wanted`. Of an object only the members in `wanted` are compared; lists and plain values
 * must be equal.
 */
export function expect(what: string, found: unknown, wanted: unknown): void {
  if (!matches(found, wanted)) throw unexpected(what, wanted, found);
}

/** The error of an expectation that is not met. */
export function unexpected(what: string, wanted: unknown, found: unknown): Error {
  const message = `${what}\n  expected: ${show(wanted)}\n  came:     ${show(found)}`;
  return Object.assign(new Error(message), { [UNEXPECTED]: true });
}

/** Whether a value is one that `wanted` stands for; undefined if `wanted` stands for itself. */
export function isAccepted(found: unknown, wanted: unknown): boolean | undefined {
  const isMatcher = typeof wanted === "object" && wanted !== null && ACCEPTS in wanted;
  return isMatcher ? (wanted as ExpectedValue)[ACCEPTS](found) : undefined;
}

/** Whether `expect` threw it, and not the store. */
export function isUnexpected(error: unknown): error is Error {
  return error instanceof Error && UNEXPECTED in error;
}

export function between(low: number, high: number): ExpectedValue {
  return matcher(`a number from ${low} to ${high}`, (n) => typeof n === "number" && n >= low && n <= high);
}

export function above(limit: number): ExpectedValue {
  return matcher(`a number above ${limit}`, (n) => typeof n === "number" && n > limit);
}

/** For times, which a store may round. */
export function about(value: number, toleranceMs: number): ExpectedValue {
  return between(value - toleranceMs, value + toleranceMs);
}

export function matcher(text: string, accepts: (found: unknown) => boolean): ExpectedValue {
  return { text, [ACCEPTS]: accepts };
}

function matches(found: unknown, wanted: unknown): boolean {
  if (Object.is(found, wanted)) return true;
  if (typeof wanted !== "object" || wanted === null) return false;
  const accepted = isAccepted(found, wanted);
  if (accepted !== undefined) return accepted;
  if (typeof found !== "object" || found === null) return false;
  if (Array.isArray(wanted) && (!Array.isArray(found) || found.length !== wanted.length)) return false;
  return Object.entries(wanted).every(([name, member]) =>
    matches((found as Record<string, unknown>)[name], member),
  );
}

const SHOWN_CHARACTERS = 100;
const SHOWN_ITEMS = 8;

function show(value: unknown): string {
  if (typeof value === "string") return cut(JSON.stringify(value), SHOWN_CHARACTERS);
  if (typeof value !== "object" || value === null) return String(value);
  if (ACCEPTS in value) return (value as ExpectedValue).text;
  if (Array.isArray(value)) {
    const items = value.slice(0, SHOWN_ITEMS).map(show).join(", ");
    return `[${items}${value.length > SHOWN_ITEMS ? `, … ${value.length} in all` : ""}]`;
  }
  return `{ ${Object.entries(value)
    .map(([name, member]) => `${name}: ${show(member)}`)
    .join(", ")} }`;
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
