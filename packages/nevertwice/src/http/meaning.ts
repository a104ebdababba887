/**
 * What a request means, as the value that the engine makes a fingerprint of: its method, its target, and its body in the
 * way that the route asked for. Two requests of one meaning are one request; where that cannot be told, the bytes decide.
 */
import { hash } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { readContentDigest } from "./content-digest.ts";
import type { RequestBody } from "./exchange.ts";
import { readParameters } from "./header-parameters.ts";
import { readJson } from "./json-meaning.ts";
import { readParts } from "./multipart.ts";
import type { FingerprintHow } from "./options.ts";

export interface MeantRequest {
  readonly method: string;
  readonly target: string;
  readonly contentType: string | undefined;
  readonly contentDigest?: string | undefined;
}

type BodyMeaning = readonly [kind: "json" | "fields" | "parts" | "bytes" | "sha-512", meaning: unknown];

/**
 * Undefined for `how: "none"`. `exclude` names a member of a JSON body that is left out: the key itself, if it is there.
 * With `"content-digest"` the body is not looked at. Fails with `fingerprint-invalid` if the digest asked for is not
 * there, and with `options-invalid` if a parser that ran before us took away what `how` needs.
 */
export function meaningOf(
  request: MeantRequest,
  body: RequestBody,
  how: FingerprintHow,
  exclude?: string,
): unknown {
  if (how === "none") return undefined;
  return [request.method, request.target, ...bodyMeaning(request, body, how, exclude)];
}

function bodyMeaning(
  { contentType, contentDigest }: MeantRequest,
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
  const type = how === "raw" || bytes.length === 0 ? undefined : bodyTypeOf(contentType);
  if (type === "json") {
    const json = readJson(bytes);
    if (json !== undefined) return valueMeaning(json.value, how, exclude);
  } else if (type !== undefined && how === "json") {
    const parts = readParts(bytes, type.boundary);
    if (parts !== undefined) return ["parts", parts];
  }
  return digestMeaning(bytes);
}

/** A body that a parser read before us, so that its bytes are gone. */
function parsedMeaning(
  contentType: string | undefined,
  value: unknown,
  how: ReadingHow,
  exclude: string | undefined,
): BodyMeaning {
  if (value === undefined) return digestMeaning("");
  // Nobody can tell a JSON string from a text that was not parsed. Were it read as JSON, "1" would mean what 1 does.
  if (typeof value === "string" && value.isWellFormed()) return digestMeaning(value);
  if (how === "raw") throw parsedBefore('fingerprint: "raw" needs the bytes of the body');
  const type = how === "json" ? bodyTypeOf(contentType) : undefined;
  if (type !== undefined && type !== "json")
    throw parsedBefore("the files of a multipart body are part of what it means");
  return parsedJson(valueMeaning(value, how, exclude));
}

function parsedBefore(reason: string): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    `${reason}, but it was parsed before. Put idempotency before the body parser, or name the fields that matter: fingerprint: { fields: ["amount"] }.`,
  );
}

function digestMeaning(bytes: Uint8Array | string): BodyMeaning {
  return ["bytes", hash("sha256", bytes, "base64")];
}

function valueMeaning(value: unknown, how: ReadingHow, exclude: string | undefined): BodyMeaning {
  if (typeof how === "object") return ["fields", chosenOf(value, how.fields)];
  return ["json", exclude === undefined ? value : without(value, exclude)];
}

/** By path, and only what is there: a field that is missing is not one that is null. */
function chosenOf(value: unknown, paths: readonly string[]): Readonly<Record<string, unknown>> {
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

/** Nothing inherited, and no array's length. */
function hasMember(value: unknown, name: string): value is Record<string, unknown> {
  return (
    typeof value === "object" && value !== null && Object.prototype.propertyIsEnumerable.call(value, name)
  );
}

/** A copy, since a parsed body is the handler's too. */
function without(value: unknown, name: string): unknown {
  if (!hasMember(value, name) || Array.isArray(value)) return value;
  const { [name]: _, ...others } = value;
  return others;
}

type BodyType = "json" | { readonly boundary: string };

/** What nearly every client sends is not taken apart. */
const USUAL_JSON = /^application\/json(?:; ?charset=utf-8)?$/i;

/** Undefined for whatever is taken as bytes. JSON in another charset than UTF-8 is not read as what it is not. */
function bodyTypeOf(contentType: string | undefined): BodyType | undefined {
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
