/**
 * Finds the key in a request's body: a member of JSON, or a field of a form. A body that may hide its key from us is
 * refused: it would run unguarded, although its sender gave it a key.
 */
import { fromUtf8, toUtf8 } from "#platform";
import { NevertwiceError } from "../core/errors.ts";
import { readParameters } from "./header-parameters.ts";
import type { RequestBody } from "./http-message.ts";
import { countMember } from "./json-member.ts";
import { type RawPart, splitParts } from "./multipart.ts";
import type { KeyReading } from "./profile.ts";

/** The value of one field, or what is wrong with it. */
type FieldReading = { readonly text: string } | { readonly problem: string };

const NOT_UTF8: FieldReading = { problem: "is not UTF-8 text" };

/** What people read about a field that is not there. */
export function describeKeyField(field: string): string {
  return `the field ${field} in a body of JSON or of a form`;
}

/** Undefined if the body has no such field, or is of a kind that has no fields. */
export function keyInBody(body: RequestBody, contentType: string | undefined, field: string): KeyReading {
  const value: unknown = body.kind === "parsed" ? body.value : body.bytes;
  if (value instanceof Uint8Array) return keyInBytes(value, contentType, field);
  if (typeof value === "string") return keyInBytes(toUtf8(value), contentType, field);
  return keyInValue(value, field);
}

function keyInBytes(bytes: Uint8Array, contentType: string | undefined, field: string): KeyReading {
  if (bytes.length === 0) return undefined;
  const type = readParameters(contentType ?? "application/octet-stream");
  if (type === undefined)
    return refused(`the header Content-Type cannot be read, so the key ${field} is not known`);
  const { value: kind, parameters } = type;
  const isMultipart = kind === "multipart/form-data";
  if (isMultipart || kind === "application/x-www-form-urlencoded") {
    const fields = isMultipart
      ? readParts(bytes, parameters.get("boundary") ?? "", field)
      : readPairs(bytes, field);
    if (fields === undefined)
      return refused(`the body cannot be read as ${kind}, so its field ${field} is not known`);
    if (fields.length > 0) return toKey(fields, field);
    if (isMultipart) return undefined;
    // curl sends JSON with the type of a form unless it is told otherwise, and services accept that.
  }
  const json = fromUtf8(bytes)?.replace(/^\ufeff/, "");
  const value = json === undefined ? undefined : parseJson(json);
  if (json !== undefined && value !== undefined) return keyInValue(value, field, json);
  return kind === "application/json" || kind.endsWith("+json")
    ? refused(`the body cannot be read as JSON, so its member ${field} is not known`)
    : undefined;
}

/** `json` is the text that the value was parsed from, if it is known. */
function keyInValue(value: unknown, field: string, json?: string): KeyReading {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, field)) return undefined;
  const key = (value as Record<string, unknown>)[field];
  if (typeof key !== "string" || key === "")
    return refused(`the member ${field} must be a string that is not empty`);
  // The handler's parser may take the other one.
  if (json !== undefined && countMember(json, field) > 1)
    return refused(`the member ${field} occurs more than once`);
  return { key };
}

function toKey(fields: readonly FieldReading[], field: string): KeyReading {
  const [first] = fields;
  const problem =
    first === undefined || fields.length > 1
      ? "occurs more than once"
      : "problem" in first
        ? first.problem
        : first.text === ""
          ? "is empty"
          : undefined;
  return problem === undefined
    ? { key: (first as { text: string }).text }
    : refused(`the field ${field} ${problem}`);
}

/** Undefined if the body is not UTF-8. */
function readPairs(bytes: Uint8Array, field: string): readonly FieldReading[] | undefined {
  const text = fromUtf8(bytes);
  if (text === undefined) return undefined;
  return text
    .split("&")
    .filter((pair) => new URLSearchParams(pair).has(field))
    .map((pair) => {
      const [, ...value] = pair.split("=");
      try {
        // `URLSearchParams` replaces what is not UTF-8, so that different keys would become one.
        return { text: decodeURIComponent(value.join("=").replaceAll("+", " ")) };
      } catch {
        return NOT_UTF8;
      }
    });
}

/** Undefined if parsers could split the body differently. */
function readParts(bytes: Uint8Array, boundary: string, field: string): readonly FieldReading[] | undefined {
  const parts = splitParts(bytes, boundary);
  return parts?.filter(({ disposition }) => disposition.get("name") === field).map(readPart);
}

const IDENTITY_ENCODINGS = ["7bit", "8bit", "binary"];

function readPart({ disposition, headers, content }: RawPart): FieldReading {
  if (disposition.has("filename") || disposition.has("filename*")) return { problem: "is a file" };
  const type = readParameters(headers.get("content-type") ?? "text/plain")?.value;
  const encoding = (headers.get("content-transfer-encoding") ?? "8bit").toLowerCase();
  if (type !== "text/plain" || !IDENTITY_ENCODINGS.includes(encoding)) return { problem: "is not text" };
  const text = fromUtf8(content);
  return text === undefined ? NOT_UTF8 : { text };
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function refused(problem: string): KeyReading {
  return { refused: new NevertwiceError("key-invalid", `${problem}.`) };
}
