/** A message of the outbox: what a producer hands in, what a deliverer gets, and the text in which both are stored. */
import { utf8Bytes } from "../core/bytes.ts";
import { type ErrorCode, NevertwiceError } from "../core/errors.ts";
import { checkedPart, describeType } from "../core/identity.ts";
import { checkOptions } from "../core/option-checks.ts";
import { decodeOutcome, encodeOutcome } from "../core/outcome.ts";

/** A message to send. */
export interface OutgoingMessage {
  /** The name of the event, such as `order.paid`. */
  readonly topic: string;
  /** A JSON value, well-formed text, or bytes. */
  readonly body: unknown;
  /** Messages of one key are delivered in order, whatever their topics. Messages without a key have no order. */
  readonly key?: string | undefined;
  /** Short texts that deliverers pass on beside the body. Names are lower-case letters, digits, `-`, `_` and `.`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Who the message belongs to, for `forget({ scope })`. `attempt.enqueue` takes the scope of its record. */
  readonly scope?: string | undefined;
}

/** A message as a deliverer gets it. */
export interface OutboxMessage {
  /** The same on every delivery of this message: consumers recognise a duplicate by it. */
  readonly id: string;
  /** What the message is about. The receiver chooses by it what to do. */
  readonly topic: string;
  /** Messages of one topic with the same key are delivered in order; undefined for no order. */
  readonly key: string | undefined;
  /** What was sent: a JSON value, text, or bytes (a `Uint8Array`). */
  readonly body: unknown;
  /** Headers for the receiver. */
  readonly headers: Readonly<Record<string, string>>;
  /** When the message was written, in milliseconds of the database's clock. */
  readonly createdAt: number;
}

/** A message as it is written to the table. */
export interface StoredMessage {
  readonly id: string;
  readonly topic: string;
  readonly key: string | undefined;
  readonly scope: string;
  /** Headers and body as text, sealed if the outbox has keys. */
  readonly content: string;
}

const CHECKS = { topic: () => {}, body: () => {}, key: () => {}, headers: () => {}, scope: () => {} };

const MAX_HEADERS = 64;
const HEADER_NAME = /^[a-z0-9._-]{1,128}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: line breaks in a header would forge other headers.
const HEADER_VALUE = /^[^\u0000-\u001f\u007f]{0,1024}$/u;

/** Throws `options-invalid`, `key-invalid`, or `body-too-large`. No message of these contains the body. */
export function toStored(
  message: OutgoingMessage,
  id: string,
  { maxMessageBytes, seal }: { readonly maxMessageBytes: number; seal(id: string, text: string): string },
): StoredMessage {
  checkOptions(message, CHECKS);
  const { topic, key, scope, headers = {}, body } = message;
  return {
    id,
    topic: checkedName(topic, "topic", "options-invalid"),
    key: key === undefined ? undefined : checkedName(key, "key", "key-invalid"),
    scope: scope === undefined ? "" : checkedName(scope, "scope", "options-invalid"),
    content: seal(id, encodeContent(checkedHeaders(headers), body, maxMessageBytes)),
  };
}

function checkedName(value: unknown, name: string, code: ErrorCode): string {
  const text = checkedPart(value, name, code);
  // Postgres cannot store it, and a name that only some databases take would be a trap.
  if (text.includes("\0")) throw new NevertwiceError(code, `${name} contains U+0000.`);
  return text;
}

function checkedHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = typeof headers === "object" && headers !== null ? Object.entries(headers) : undefined;
  if (entries === undefined || entries.length > MAX_HEADERS)
    throw new NevertwiceError(
      "options-invalid",
      `headers must be an object of at most ${MAX_HEADERS} texts.`,
    );
  for (const [name, value] of entries) {
    if (!HEADER_NAME.test(name))
      throw new NevertwiceError(
        "options-invalid",
        `a name in headers is malformed: it must be 1 to 128 lower-case letters, digits, ".", "_" and "-".`,
      );
    if (typeof value !== "string" || !value.isWellFormed() || !HEADER_VALUE.test(value))
      throw new NevertwiceError(
        "options-invalid",
        `headers.${name} must be text of at most 1,024 characters without control characters.`,
      );
  }
  return Object.fromEntries(entries);
}

type Format = "json" | "text" | "bytes";

/** Outcomes have one text for each value that JSON can express; the third character says whether it needed more than JSON. */
const SHAPE = 4;
const TAGGED = "t";

function encodeContent(
  headers: Readonly<Record<string, string>>,
  body: unknown,
  maxMessageBytes: number,
): string {
  const [format, data] = toData(body);
  const encoded = encodeOutcome("value", [headers, format, data], maxMessageBytes);
  if (encoded.kept && encoded.text[SHAPE] !== TAGGED) return encoded.text;
  if (!encoded.kept && encoded.reason === "too-large")
    throw new NevertwiceError(
      "body-too-large",
      `the message has more than ${maxMessageBytes} bytes (maxMessageBytes): send a reference to the content instead.`,
    );
  throw new NevertwiceError(
    "options-invalid",
    `the body of a message must be a JSON value, text or bytes; it is, or contains, ${describeType(body)} that JSON cannot express.`,
  );
}

function toData(body: unknown): readonly [format: Format, data: unknown] {
  if (body instanceof Uint8Array)
    return ["bytes", Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64")];
  if (typeof body !== "string") return ["json", body];
  if (!body.isWellFormed())
    throw new NevertwiceError("options-invalid", "the body is text with a lone surrogate; send it as bytes.");
  return ["text", body];
}

export interface Content {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Throws for a text that this library did not write. */
export function decodeContent(text: string): Content {
  const outcome = decodeOutcome(text);
  if (outcome.kind !== "value" || !Array.isArray(outcome.value)) throw unreadable();
  const [headers, format, data] = outcome.value as [Content["headers"], Format, unknown];
  if (format === "bytes") return { headers, body: new Uint8Array(Buffer.from(data as string, "base64")) };
  if (format !== "json" && format !== "text") throw unreadable();
  return { headers, body: data };
}

function unreadable(): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    "the content of a message is not in a format that this version knows.",
  );
}

/** The body as a broker or a web server takes it: text and bytes unchanged, any other value as JSON. */
export function bodyBytes(body: unknown): { readonly bytes: Uint8Array; readonly contentType: string } {
  if (body instanceof Uint8Array) return { bytes: body, contentType: "application/octet-stream" };
  if (typeof body === "string")
    return { bytes: Buffer.from(body, "utf8"), contentType: "text/plain; charset=utf-8" };
  return { bytes: Buffer.from(JSON.stringify(body), "utf8"), contentType: "application/json" };
}

const MAX_ERROR_BYTES = 500;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters could forge lines of a log.
const CONTROLS = /[\u0000-\u001f\u007f]+/g;

/**
 * Why a delivery failed, as it is kept with the message: bounded, and on one line. The message of an error may quote the
 * body, so `isBrief` leaves it out, for outboxes whose bodies are sealed.
 */
export function errorText(error: unknown, isBrief: boolean): string {
  if (!(error instanceof Error)) return `${describeType(error)} was thrown`;
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  const named = typeof code === "string" ? `${error.name} ${code}` : error.name;
  const inner = isBrief && cause instanceof Error ? ` (${cause.name})` : "";
  const text = isBrief ? named + inner : `${named}: ${error.message}`;
  const line = text.toWellFormed().replace(CONTROLS, " ");
  // A UTF-16 unit takes at most three bytes.
  return utf8Bytes(line) <= MAX_ERROR_BYTES
    ? line
    : `${line.slice(0, MAX_ERROR_BYTES / 3 - 3).toWellFormed()}…`;
}
