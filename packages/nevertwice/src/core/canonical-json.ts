/** Canonical JSON (RFC 8785): equal values have the same text, whatever the order of their members. */
import { NevertwiceError } from "./errors.ts";
import { describeType } from "./identity.ts";

/** Deeper values are refused; so are circular ones, which are infinitely deep. */
export const MAX_DEPTH = 128;
/** A small value that contains the same part many times can be very large as text. */
const MAX_LENGTH = 64 * 1_048_576;

/**
 * Members sorted by UTF-16 code units, numbers and strings as ECMAScript writes them. Throws `fingerprint-invalid` for a
 * value that JSON cannot represent: nothing is converted, and only members that are undefined are left out.
 */
export function canonicalJson(value: unknown): string {
  try {
    return canonical(value, 0);
  } catch (error) {
    throw error instanceof NotCanonical ? invalid(error) : error;
  }
}

/** A part that JSON cannot represent. Each level that it passes adds its name to the path, so that only a failure needs one. */
class NotCanonical {
  readonly found: string;
  readonly path: (string | number)[] = [];

  constructor(found: string) {
    this.found = found;
  }
}

function addToPath(error: unknown, name: string | number): unknown {
  if (error instanceof NotCanonical) error.path.unshift(name);
  return error;
}

function canonical(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return canonicalText(value, "a string with");
    case "number":
      if (!Number.isFinite(value)) throw new NotCanonical(String(value));
      return `${value}`;
    case "boolean":
      return value ? "true" : "false";
    case "object":
      if (value === null) return "null";
      if (depth === MAX_DEPTH) throw new NotCanonical(`nested deeper than ${MAX_DEPTH} levels (or circular)`);
      return Array.isArray(value) ? canonicalArray(value, depth + 1) : canonicalObject(value, depth + 1);
    default:
      throw new NotCanonical(describeType(value));
  }
}

/** Characters that JSON must escape, and surrogates. Any other text only needs quotes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what JSON escapes.
const NOT_PLAIN_TEXT = /["\\\u0000-\u001f\ud800-\udfff]/;

function canonicalText(text: string, what: string): string {
  if (!NOT_PLAIN_TEXT.test(text)) return `"${text}"`;
  if (!text.isWellFormed()) throw new NotCanonical(`${what} a lone surrogate`);
  return JSON.stringify(text);
}

function canonicalArray(array: readonly unknown[], depth: number): string {
  if (Object.keys(array).length > array.length) throw new NotCanonical("an array with a named member");
  let text = "[";
  let i = 0;
  try {
    for (; i < array.length; i++) {
      if (i > 0) text += ",";
      text += canonical(array[i], depth);
      if (text.length > MAX_LENGTH) throw tooLong();
    }
  } catch (error) {
    throw addToPath(error, i);
  }
  return `${text}]`;
}

function canonicalObject(object: object, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null)
    throw new NotCanonical(`an instance of ${object.constructor?.name || "a class"}`);
  if (Object.getOwnPropertySymbols(object).length > 0)
    throw new NotCanonical("an object with a symbol as a member name");
  const names = presentNames(object as Record<string, unknown>);
  if (names.length === 0) return "{}";
  const { sorted, heads } = layoutFor(names);
  let text = "";
  let i = 0;
  try {
    for (; i < sorted.length; i++) {
      text += heads[i] + canonical((object as Record<string, unknown>)[sorted[i] as string], depth);
      if (text.length > MAX_LENGTH) throw tooLong();
    }
  } catch (error) {
    throw addToPath(error, sorted[i] as string);
  }
  return `${text}}`;
}

/** A member that is undefined counts as absent, as in JSON. */
function presentNames(object: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.keys(object);
  for (const name of names)
    if (object[name] === undefined) return names.filter((each) => object[each] !== undefined);
  return names;
}

/** How objects with these member names are written. */
interface Layout {
  readonly names: readonly string[];
  readonly sorted: readonly string[];
  /** For each sorted name, the text that comes before its value: a brace or a comma, the quoted name, and a colon. */
  readonly heads: readonly string[];
}

/**
 * The layouts of the objects that were written lately, by their first name. An application writes few kinds of objects, and
 * finding the layout of one is much cheaper than sorting and quoting its names. Names may come from a client, so both the
 * number of layouts and their size have limits.
 */
const layouts = new Map<string, Layout[]>();
const MAX_FIRST_NAMES = 256;
const MAX_LAYOUTS_PER_NAME = 4;
const MAX_NAMES = 32;
const MAX_NAME_LENGTH = 64;

function layoutFor(names: readonly string[]): Layout {
  const known = layouts.get(names[0] as string);
  if (known !== undefined) {
    for (const layout of known) if (isSame(layout.names, names)) return layout;
  }
  const layout = createLayout(names);
  if (names.length > MAX_NAMES || names.some(({ length }) => length > MAX_NAME_LENGTH)) return layout;
  if (known === undefined) {
    if (layouts.size === MAX_FIRST_NAMES) layouts.clear();
    layouts.set(names[0] as string, [layout]);
  } else {
    if (known.length === MAX_LAYOUTS_PER_NAME) known.pop();
    known.unshift(layout);
  }
  return layout;
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = a.length - 1; i >= 0; i--) if (a[i] !== b[i]) return false;
  return true;
}

function createLayout(names: readonly string[]): Layout {
  // By default, `sort` compares UTF-16 code units.
  const sorted = [...names].sort();
  const heads = sorted.map((name, i) => {
    const text = canonicalText(name, "an object whose member name has");
    return `${i === 0 ? "{" : ","}${text}:`;
  });
  return { names, sorted, heads };
}

function tooLong(): NotCanonical {
  return new NotCanonical(`more than ${MAX_LENGTH} characters as JSON`);
}

function invalid({ path, found }: NotCanonical): NevertwiceError {
  return new NevertwiceError(
    "fingerprint-invalid",
    `${["fingerprint", ...path].join(".")} is ${found}, which JSON cannot represent. Give plain JSON values (a date as its ISO string, a bigint as a string), or the request's bytes as a Uint8Array.`,
  );
}
