/**
 * The meaning of a request: its method, its target, and its body as the option `fingerprint` says. The engine computes
 * the fingerprint of this value. Two requests with the same meaning count as the same request. A body that cannot be read
 * exactly is compared by its bytes.
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { readContentDigest } from "./content-digest.ts";
import { readExactJson } from "./exact-json.ts";
import { readParameters } from "./header-parameters.ts";
import type { RequestBody } from "./http-message.ts";
import { readParts } from "./multipart.ts";
import type { FingerprintHow } from "./options.ts";

export interface ComparedRequest {
  readonly method: string;
  readonly target: string;
  readonly contentType: string | undefined;
  readonly contentDigest?: string | undefined;
}

type BodyMeaning = readonly [kind: "json" | "fields" | "parts" | "bytes" | "sha-512", meaning: unknown];

/**
 * Undefined for `how: "none"`. `exclude` names a member of a JSON body that does not count: the key, if the body carries
 * it. With `"content-digest"` the body is not read. Throws `fingerprint-invalid` if the `Content-Digest` header is missing
 * or unusable, and `options-invalid` if an earlier parser has consumed what `how` needs.
 */
export function requestMeaning(
  request: ComparedRequest,
  body: RequestBody,
  how: FingerprintHow,
  exclude?: string,
): unknown {
  if (how === "none") return undefined;
  const [kind, meaning] = bodyMeaning(request, body, how, exclude);
  return [request.method, request.target, kind, meaning];
}

function bodyMeaning(
  { contentType, contentDigest }: ComparedRequest,
  body: RequestBody,
  how: Exclude<FingerprintHow, "none">,
  exclude: string | undefined,
): BodyMeaning {
  if (how === "content-digest") {
    const { algorithm, digest } = readContentDigest(contentDigest);
    return [algorithm === "sha-256" ? "bytes" : algorithm, digest];
  }
  if (body.kind === "bytes") return bytesMeaning(contentType, body.bytes, how, exclude);
  if (body.value instanceof Uint8Array) return bytesMeaning(contentType, body.value, how, exclude);
  return parsedMeaning(contentType, body.value, how, exclude);
}

type ReadingHow = Exclude<FingerprintHow, "none" | "content-digest">;

function bytesMeaning(
  contentType: string | undefined,
  bytes: Uint8Array,
  how: ReadingHow,
  exclude: string | undefined,
): BodyMeaning {
  const type = how === "raw" || bytes.length === 0 ? undefined : readBodyType(contentType);
  if (type === "json") {
    const json = readExactJson(bytes);
    if (json !== undefined) return valueMeaning(json.value, how, exclude);
  } else if (type !== undefined && how === "json") {
    const parts = readParts(bytes, type.boundary);
    if (parts !== undefined) return ["parts", parts];
  }
  return digestMeaning(bytes);
}

/** The meaning of a body that an earlier parser has read, so that its bytes are no longer available. */
function parsedMeaning(
  contentType: string | undefined,
  value: unknown,
  how: ReadingHow,
  exclude: string | undefined,
): BodyMeaning {
  if (value === undefined) return digestMeaning("");
  // The value may be a parsed JSON string or plain text. Read as JSON, the text "1" would equal the number 1.
  if (typeof value === "string" && value.isWellFormed()) return digestMeaning(value);
  if (how === "raw") throw alreadyParsed('fingerprint: "raw" needs the bytes of the body');
  const type = how === "json" ? readBodyType(contentType) : undefined;
  if (type !== undefined && type !== "json")
    throw alreadyParsed("a multipart body is compared with its files");
  return parsedJson(valueMeaning(value, how, exclude));
}

function alreadyParsed(reason: string): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    `${reason}, but an earlier parser has read it. Mount idempotency in front of the body parser, or name the fields that count: fingerprint: { fields: ["amount"] }.`,
  );
}

function digestMeaning(bytes: Uint8Array | string): BodyMeaning {
  return ["bytes", hash("sha256", bytes, "base64")];
}

function valueMeaning(value: unknown, how: ReadingHow, exclude: string | undefined): BodyMeaning {
  if (typeof how === "object") return ["fields", pickFields(value, how.fields)];
  return ["json", exclude === undefined ? value : without(value, exclude)];
}

/** The fields by path. A missing field is left out, and so differs from one that is null. */
function pickFields(value: unknown, paths: readonly string[]): Readonly<Record<string, unknown>> {
  const chosen: [path: string, member: unknown][] = [];
  for (const path of paths) {
    let member: unknown = value;
    const isThere = path.split(".").every((name) => {
      if (!hasMember(member, name)) return false;
      member = member[name];
      return true;
    });
    if (isThere) chosen.push([path, member]);
  }
  return Object.fromEntries(chosen);
}

/** Own enumerable members only: nothing inherited, and not the length of an array. */
function hasMember(value: unknown, name: string): value is Record<string, unknown> {
  return (
    typeof value === "object" && value !== null && Object.prototype.propertyIsEnumerable.call(value, name)
  );
}

/** Returns a copy, since the handler uses the same parsed body. */
function without(value: unknown, name: string): unknown {
  if (!hasMember(value, name) || Array.isArray(value)) return value;
  const { [name]: _, ...others } = value;
  return others;
}

type BodyType = "json" | { readonly boundary: string };

/** Almost every client sends one of these values. They need no parsing. */
const USUAL_JSON = /^application\/json(?:; ?charset=utf-8)?$/i;

/** Undefined for a body that is compared by its bytes. That includes JSON in a charset other than UTF-8. */
function readBodyType(contentType: string | undefined): BodyType | undefined {
  if (contentType === undefined) return undefined;
  if (USUAL_JSON.test(contentType)) return "json";
  const type = readParameters(contentType);
  if (type === undefined) return undefined;
  const { value, parameters } = type;
  const boundary = parameters.get("boundary");
  if (value === "multipart/form-data") return boundary === undefined ? undefined : { boundary };
  const isJson = value === "application/json" || /^[^/]+\/[^/]+\+json$/.test(value);
  return isJson && (parameters.get("charset") ?? "utf-8").toLowerCase() === "utf-8" ? "json" : undefined;
}
