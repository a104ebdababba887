/**
 * The meaning of a request: its method, its target, and its body as the option `fingerprint` says. The engine computes
 * the fingerprint of this value. Two requests with the same meaning count as the same request. A body that cannot be read
 * exactly is compared by its bytes.
 */
import { fromUtf8, sha256 } from "#platform";
import { NevertwiceError } from "../core/errors.ts";
import { parsedJson } from "../core/fingerprint.ts";
import { parseJson } from "../core/parse-json.ts";
import { readContentDigest } from "./content-digest.ts";
import { readExactJson } from "./exact-json.ts";
import { readParameters } from "./header-parameters.ts";
import type { RequestBody } from "./http-message.ts";
import { withoutMember } from "./json-member.ts";
import { readParts } from "./multipart.ts";
import type { FingerprintedRequest, FingerprintFunction, FingerprintHow } from "./options.ts";

export interface ComparedRequest {
  readonly method: string;
  readonly target: string;
  readonly contentType: string | undefined;
  readonly contentDigest?: string | undefined;
}

type BodyMeaning = readonly [
  kind: "json" | "fields" | "parts" | "bytes" | "sha-512" | "of",
  meaning: unknown,
];

/** Every way to compare requests but a function in place of the object that contains it. */
export type MeaningHow = Exclude<FingerprintHow, FingerprintFunction<never>>;

/**
 * Undefined for `how: "none"`. `exclude` names a member of a JSON body that does not count: the key, if the body carries
 * it. With `"content-digest"` the body is not read. Throws `fingerprint-invalid` if the `Content-Digest` header is missing
 * or unusable, and `options-invalid` if an earlier parser has consumed what `how` needs.
 */
export function requestMeaning(
  request: ComparedRequest,
  body: RequestBody,
  how: MeaningHow,
  exclude?: string,
): unknown {
  if (how === "none") return undefined;
  const { without = [] } = typeof how === "object" ? how : {};
  const ofBody = without.filter((path) => path !== PATH && path !== QUERY).map(memberPath);
  const left = exclude === undefined ? ofBody : [[exclude], ...ofBody];
  const [kind, meaning] = bodyMeaning(request, body, how, left);
  return [request.method, leaveOut(request.target, without), kind, meaning];
}

const PATH = "path";
const QUERY = "query";
/** In front of a member of the body that is called like a part of the request: `body.path`. */
const BODY = "body";

function memberPath(path: string): readonly string[] {
  const names = path.split(".");
  return names.length > 1 && names[0] === BODY ? names.slice(1) : names;
}

function leaveOut(target: string, without: readonly string[]): string {
  const start = target.indexOf("?");
  const end = start === -1 ? target.length : start;
  const path = without.includes(PATH) ? "" : target.slice(0, end);
  return without.includes(QUERY) ? path : path + target.slice(end);
}

type Left = readonly (readonly string[])[];

function bodyMeaning(
  request: ComparedRequest,
  body: RequestBody,
  how: ReadingHow | "content-digest",
  left: Left,
): BodyMeaning {
  const { contentType, contentDigest } = request;
  if (how === "content-digest") {
    const { algorithm, digest } = readContentDigest(contentDigest);
    return [algorithm === "sha-256" ? "bytes" : algorithm, digest];
  }
  if (body.kind === "bytes") return bytesMeaning(contentType, body.bytes, how, left);
  if (body.value instanceof Uint8Array) return bytesMeaning(contentType, body.value, how, left);
  return parsedMeaning(contentType, body.value, how, left);
}

type ReadingHow = Exclude<MeaningHow, "none" | "content-digest">;

function bytesMeaning(
  contentType: string | undefined,
  bytes: Uint8Array,
  how: ReadingHow,
  left: Left,
): BodyMeaning {
  const type = how === "raw" || bytes.length === 0 ? undefined : readBodyType(contentType);
  if (type === "json") {
    const json = readExactJson(bytes);
    if (json !== undefined) return valueMeaning(json.value, how, left);
  } else if (type !== undefined && comparesAll(how)) {
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
  left: Left,
): BodyMeaning {
  if (value === undefined) return digestMeaning("");
  // The value may be a parsed JSON string or plain text. Read as JSON, the text "1" would equal the number 1.
  if (typeof value === "string" && value.isWellFormed()) return digestMeaning(value);
  if (how === "raw") throw alreadyParsed('fingerprint: "raw" needs the bytes of the body');
  const type = comparesAll(how) ? readBodyType(contentType) : undefined;
  if (type !== undefined && type !== "json")
    throw alreadyParsed("a multipart body is compared with its files");
  return parsedJson(valueMeaning(value, how, left));
}

function alreadyParsed(reason: string): NevertwiceError {
  return new NevertwiceError(
    "options-invalid",
    `${reason}, but an earlier parser has read it. Mount idempotency in front of the body parser, or name the fields that count: fingerprint: { fields: ["amount"] }.`,
  );
}

function digestMeaning(bytes: Uint8Array | string): BodyMeaning {
  return ["bytes", sha256(bytes, "base64")];
}

/** All of the body counts, but for what is left out of JSON. */
function comparesAll(how: ReadingHow): boolean {
  return how === "json" || (typeof how === "object" && how.fields === undefined);
}

function valueMeaning(value: unknown, how: ReadingHow, left: Left): BodyMeaning {
  const counted = left.reduce(withoutMember, value);
  if (typeof how === "object" && how.fields !== undefined) return ["fields", pickFields(counted, how.fields)];
  return ["json", counted];
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

/** The meaning of a request whose body is compared by a function of the application. */
export async function ownMeaning<Native>(
  request: Pick<FingerprintedRequest<Native>, "native" | "method" | "header"> & { readonly target: string },
  body: RequestBody,
  {
    of,
    without = [],
  }: { readonly of: FingerprintFunction<Native>; readonly without?: readonly string[] | undefined },
): Promise<unknown> {
  const { native, method, target } = request;
  const [path = "", ...query] = target.split("?");
  const value = await of({
    native,
    method,
    path,
    query: query.join("?"),
    header: (name) => request.header(name.toLowerCase()),
    json: () => readJson(body),
    bytes: () => (body.kind === "bytes" ? body.bytes : undefined),
  });
  if (value === undefined)
    throw new NevertwiceError(
      "options-invalid",
      'the function fingerprint returned undefined. Return a JSON value or bytes, or set fingerprint: "none".',
    );
  const meaning = value instanceof Uint8Array ? sha256(value, "base64") : value;
  return [method, leaveOut(target, without), "of", meaning];
}

function readJson(body: RequestBody): unknown {
  if (body.kind === "parsed") return body.value;
  try {
    return parseJson(fromUtf8(body.bytes) ?? "");
  } catch {
    return undefined;
  }
}
