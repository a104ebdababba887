/**
 * What the work returned or threw, as text: a JSON array of a header and the content. The header has one character each for
 * format, kind and shape, and then the origin if there is one. Text can be read by people where it is stored, and shared
 * without copying. In a list that ends in a long text, such as an HTTP response, that text follows after a line break, so
 * that it need not be escaped.
 */
import { utf8Bytes } from "./bytes.ts";
import { parseJson } from "./parse-json.ts";
import { copyAgain, copyPlain, NOT_PLAIN } from "./plain-copy.ts";
import { fromTagged, TooLarge, toTagged } from "./tagged.ts";

/** A stored outcome. `not-kept`: the work is done, but what it returned could not be stored. */
export type Outcome = (
  | {
      /** What the record holds: a value, an error, or only that the work is done. */
      readonly kind: "value";
      /** What the work returned, decoded. */
      readonly value: unknown;
    }
  | {
      readonly kind: "thrown";
      /** What the work threw, decoded: kept under `onFailure: "remember"`. */
      readonly error: unknown;
    }
  | {
      readonly kind: "not-kept";
      /** Why what the work returned was not stored. */
      readonly reason: NotKeptReason;
    }
) & {
  /** Where the work ran, as an observer said it: a trace and span, for example. */
  readonly origin?: string | undefined;
};

/** `unreadable`: stored in a format that this version does not know, or sealed with a key that is missing. */
export type NotKeptReason = "not-encodable" | "too-large" | "forgotten" | "unreadable";

const FORMAT = "1";
const HEADER_LENGTH = 3;
const KINDS = { value: "v", thrown: "t", "not-kept": "n" } as const;
/** Plain JSON, or JSON with tags for values that JSON cannot represent. */
const PLAIN = "p";
const TAGGED = "t";
/** JSON of all elements except the last, a line break, and the last element as text. */
const TRAILING = "r";
/** Shorter texts are stored as plain JSON. */
const LONG_TEXT = 128;

/** The text and the value that it decodes to, or the reason why there is no text. */
export type Encoded =
  | { readonly kept: true; readonly text: string; readonly content: unknown }
  | { readonly kept: false; readonly reason: "not-encodable" | "too-large"; readonly detail: string };

/** Encodes JSON values, `undefined`, bytes, Date, bigint, Map, Set and errors. Anything else is not encodable. */
export function encodeOutcome(
  kind: "value" | "thrown",
  content: unknown,
  maxBytes: number,
  origin = "",
): Encoded {
  const encoded = encode(kind, content, maxBytes, origin);
  if (encoded.kept || kind !== "thrown" || !(content instanceof Error)) return encoded;
  // The error itself matters more than its cause.
  return encode(kind, withoutCause(content), maxBytes, origin);
}

function encode(kind: "value" | "thrown", content: unknown, maxBytes: number, origin: string): Encoded {
  const start = FORMAT + KINDS[kind];
  try {
    // Each part takes at least one byte, so a value that fits has no more parts than bytes.
    const plain = copyPlain(content, { partsLeft: maxBytes, mostBytes: 0 });
    // The copy is encoded, so that a getter that returns something else each time is read only once.
    if (plain !== NOT_PLAIN) return sized(plainText(start, plain, origin), plain, maxBytes);
    const tagged = toTagged(content, { partsLeft: maxBytes });
    return sized(JSON.stringify([start + TAGGED + origin, tagged]), fromTagged(tagged), maxBytes);
  } catch (error) {
    // A getter of the value may throw too. The work is done, so nothing may make it look undone.
    const reason = error instanceof TooLarge ? "too-large" : "not-encodable";
    return { kept: false, reason, detail: error instanceof Error ? error.message : describeThrown(error) };
  }
}

function plainText(start: string, plain: unknown, origin: string): string {
  return trailing(start + TRAILING + origin, plain) ?? JSON.stringify([start + PLAIN + origin, plain]);
}

/**
 * The outcome of work that returned plain JSON, for a store in this process. It holds a copy of its own, and gives each
 * caller another one: that takes a fraction of the time of writing and reading text. A string in the value is shared, so a
 * substring of a long text keeps that text in memory.
 */
export class KeptValue {
  readonly #plain: unknown;
  readonly #origin: string;

  constructor(plain: unknown, origin: string) {
    this.#plain = plain;
    this.#origin = origin;
  }

  /** The text that a store would keep. It is made anew each time. */
  get text(): string {
    return plainText(FORMAT + KINDS.value, this.#plain, this.#origin);
  }

  /** What `decodeOutcome` makes of that text. */
  decode(): Outcome & { readonly kind: "value" } {
    const value = copyAgain(this.#plain);
    return this.#origin === "" ? { kind: "value", value } : { kind: "value", value, origin: this.#origin };
  }
}

/** An outcome as text, or as a value in a store that keeps values. */
export type KeptOutcome = string | KeptValue;

export function outcomeText(outcome: KeptOutcome): string {
  return typeof outcome === "string" ? outcome : outcome.text;
}

/** The bytes of brackets, quotes and a comma around a header, whose characters may all be escaped. */
const FRAME_BYTES = 6;
const ESCAPED_BYTES = 6;

/** Undefined if the value is not plain JSON, or if only its text can tell whether it fits: then use `encodeOutcome`. */
export function keepValue(content: unknown, maxBytes: number, origin = ""): KeptValue | undefined {
  const mostBytes = FRAME_BYTES + (HEADER_LENGTH + origin.length) * ESCAPED_BYTES;
  const budget = { partsLeft: maxBytes, mostBytes };
  try {
    const plain = copyPlain(content, budget);
    if (plain === NOT_PLAIN || budget.mostBytes > maxBytes) return undefined;
    return new KeptValue(plain, origin);
  } catch {
    return undefined;
  }
}

/** Undefined if the value has another form, or if not every store can keep the text unchanged. */
function trailing(header: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return undefined;
  const last: unknown = value.at(-1);
  if (typeof last !== "string" || last.length < LONG_TEXT) return undefined;
  if (!last.isWellFormed() || last.includes("\0")) return undefined;
  return `${JSON.stringify([header, ...value.slice(0, -1)])}\n${last}`;
}

/** A thrown value as text. Some thrown objects cannot be converted to a string. */
function describeThrown(thrown: unknown): string {
  return typeof thrown === "object" && thrown !== null ? "an object was thrown" : String(thrown);
}

function sized(text: string, content: unknown, maxBytes: number): Encoded {
  // A UTF-16 unit takes at most three bytes, so most texts need not be measured.
  const bytes = text.length * 3 <= maxBytes ? 0 : utf8Bytes(text);
  if (bytes <= maxBytes) return { kept: true, text, content };
  return {
    kept: false,
    reason: "too-large",
    detail: `${bytes} bytes, but at most ${maxBytes} may be stored`,
  };
}

function withoutCause(error: Error): Error {
  return Object.create(error, { cause: { value: undefined } }) as Error;
}

/** The outcome of work that is done and must not be repeated, but whose value cannot be replayed. */
export function notKept(reason: NotKeptReason): string {
  return JSON.stringify([FORMAT + KINDS["not-kept"] + PLAIN, { reason }]);
}

export const FORGOTTEN: string = notKept("forgotten");

export function decodeOutcome(outcome: KeptOutcome): Outcome {
  if (typeof outcome !== "string") return outcome.decode();
  try {
    return decode(outcome);
  } catch {
    // Another program or a later version wrote it. The work is done; this must not look like an error of the work.
    return { kind: "not-kept", reason: "unreadable" };
  }
}

function decode(text: string): Outcome {
  // The JSON that we write has no line break.
  const end = text.indexOf("\n");
  const [header, ...rest] = parseJson(end === -1 ? text : text.slice(0, end)) as [string, ...unknown[]];
  const shape = header[2];
  if (header[0] !== FORMAT || (shape === TRAILING) === (end === -1)) throw new TypeError("unknown format");
  const content = contentIn(shape, rest, text.slice(end + 1));
  const origin = header.length > HEADER_LENGTH ? { origin: header.slice(HEADER_LENGTH) } : undefined;
  switch (header[1]) {
    case KINDS.value:
      return { kind: "value", value: content, ...origin };
    case KINDS.thrown:
      return { kind: "thrown", error: content, ...origin };
    case KINDS["not-kept"]:
      return { kind: "not-kept", reason: (content as { reason: NotKeptReason }).reason };
    default:
      throw new TypeError("unknown kind");
  }
}

function contentIn(shape: string | undefined, rest: unknown[], last: string): unknown {
  switch (shape) {
    case PLAIN:
      return rest[0];
    case TAGGED:
      return fromTagged(rest[0]);
    case TRAILING:
      return [...rest, last];
    default:
      throw new TypeError("unknown shape");
  }
}
