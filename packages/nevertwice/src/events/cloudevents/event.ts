/** One CloudEvent 1.0, checked, in whatever content mode it came. */
import { fromBase64 } from "../../core/bytes.ts";
import { NevertwiceError } from "../../core/errors.ts";

/** A CloudEvent 1.0 that was checked, in whatever content mode it came. */
export interface CloudEvent<Data = unknown> {
  /** The version of the specification. */
  readonly specversion: "1.0";
  /** Together with `source` it identifies the event. */
  readonly id: string;
  /** Who produced the event: a URI. */
  readonly source: string;
  /** What kind of event it is. */
  readonly type: string;
  /** What the event is about, within the source. */
  readonly subject?: string;
  /** In the format of RFC 3339. */
  readonly time?: string;
  /** The media type of `data`. */
  readonly datacontenttype?: string;
  /** The schema that `data` follows: a URI. */
  readonly dataschema?: string;
  /** A JSON value, text or bytes, depending on the content type. */
  readonly data?: Data;
  /** Extension attributes: text, numbers and booleans. */
  readonly [extension: string]: unknown;
}

/** Throws `key-missing` if `id` or `source` is missing, and `key-invalid` on any other flaw. */
export function toCloudEvent(value: unknown): CloudEvent {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new NevertwiceError("key-missing", "the message is not a CloudEvent: it is not an object.");
  }
  // A null attribute counts as not set. Data may be null.
  const members = Object.entries(value).filter(([name, given]) => isSet(name, given));
  const attributes: Record<string, unknown> = Object.fromEntries(members);
  const { data, data_base64: encoded, ...named } = attributes;
  for (const name of ["id", "source"]) {
    if (named[name] === undefined || named[name] === "")
      throw new NevertwiceError("key-missing", `the CloudEvent has no ${name}.`);
  }
  if (named.specversion !== "1.0") throw flaw("its specversion is not 1.0");
  if (named.type === undefined) throw flaw("it has no type");
  for (const [name, attribute] of Object.entries(named)) checkAttribute(name, attribute);
  if (encoded === undefined) return { ...named, ...("data" in attributes ? { data } : {}) } as CloudEvent;
  if ("data" in attributes) throw flaw("it has data and data_base64");
  return { ...named, data: decodeData(encoded) } as CloudEvent;
}

function isSet(name: string, value: unknown): boolean {
  return value !== undefined && (value !== null || name === "data");
}

const NAME = /^[a-z0-9]+$/;
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const BASE64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The attributes of the specification, which are non-empty text. Extensions are simple values. */
const TEXT = new Set([
  "id",
  "source",
  "type",
  "specversion",
  "subject",
  "time",
  "datacontenttype",
  "dataschema",
]);

function checkAttribute(name: string, value: unknown): void {
  if (!NAME.test(name))
    throw flaw("the name of an attribute has other characters than lower-case letters and digits");
  if (!TEXT.has(name)) {
    if (typeof value === "object" || typeof value === "function") throw flaw(`${name} is not a simple value`);
    return;
  }
  if (typeof value !== "string" || value === "") throw flaw(`${name} is not text, or is empty`);
  if (name === "time" && !(TIME.test(value) && Number.isFinite(Date.parse(value))))
    throw flaw("its time is not in the format of RFC 3339");
}

function decodeData(encoded: unknown): Uint8Array {
  if (typeof encoded === "string" && BASE64.test(encoded)) return fromBase64(encoded);
  throw flaw("its data_base64 is not base64");
}

export function flaw(what: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("key-invalid", `the message is not a valid CloudEvent 1.0: ${what}.`, { cause });
}
