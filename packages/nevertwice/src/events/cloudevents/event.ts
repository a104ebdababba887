/** One CloudEvent 1.0: what it must have, from whatever form it came in. */
import { fromBase64 } from "../../core/bytes.ts";
import { NevertwiceError } from "../../core/errors.ts";

export interface CloudEvent<Data = unknown> {
  readonly specversion: "1.0";
  /** With `source`, the name of the event: an equal pair is the same event. */
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  /** As RFC 3339 writes it. */
  readonly time?: string;
  readonly datacontenttype?: string;
  readonly dataschema?: string;
  /** As JSON, as text, or as bytes, by its content type. */
  readonly data?: Data;
  /** Extension attributes: text, numbers and booleans. */
  readonly [extension: string]: unknown;
}

/** Fails with `key-missing` without an id or source to go by, and with `key-invalid` on any other flaw. */
export function eventOf(value: unknown): CloudEvent {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new NevertwiceError("key-missing", "the message is no CloudEvent: it is no object.");
  }
  // An attribute that is null is one that is not set; data may be null.
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
  return { ...named, data: bytesOf(encoded) } as CloudEvent;
}

function isSet(name: string, value: unknown): boolean {
  return value !== undefined && (value !== null || name === "data");
}

const NAME = /^[a-z0-9]+$/;
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;
const BASE64 = /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Those of the specification are text with something in it; extensions are simple values. */
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
  if (!NAME.test(name)) throw flaw("the name of an attribute is not of lower-case letters and digits");
  if (!TEXT.has(name)) {
    if (typeof value === "object" || typeof value === "function") throw flaw(`${name} is no simple value`);
    return;
  }
  if (typeof value !== "string" || value === "") throw flaw(`${name} is no text, or empty`);
  if (name === "time" && !(TIME.test(value) && Number.isFinite(Date.parse(value))))
    throw flaw("its time is not written as RFC 3339 has it");
}

function bytesOf(encoded: unknown): Uint8Array {
  if (typeof encoded === "string" && BASE64.test(encoded)) return fromBase64(encoded);
  throw flaw("its data_base64 is not base64");
}

export function flaw(what: string, cause?: unknown): NevertwiceError {
  return new NevertwiceError("key-invalid", `the message is no CloudEvent 1.0 to go by: ${what}.`, { cause });
}
