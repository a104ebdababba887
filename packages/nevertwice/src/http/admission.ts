/**
 * Admits a request before the store is asked: reads its key, its scope and its operation, asks `authorize`, reads the
 * body within its limit, and determines what the request means.
 */
import { sha256, utf8Bytes } from "#platform";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart, MAX_PART_BYTES } from "../core/identity.ts";
import { refuseReserved } from "../core/reserved.ts";
import type { HttpRequest, RequestBody } from "./http-message.ts";
import { parseKeyHeader } from "./key-header.ts";
import { describeKeyField, keyInBody } from "./key-in-body.ts";
import type { KeyContext, KeyReading } from "./profile.ts";
import { type MeaningHow, ownMeaning, requestMeaning } from "./request-meaning.ts";
import type { ResolvedHttpOptions } from "./resolved-options.ts";
import { type MatchedRoute, normalPath } from "./route-path.ts";
import { isThenable } from "./thenable.ts";

/** A request whose key may be claimed. */
export interface AdmittedRequest {
  readonly key: string;
  readonly operation: string;
  /** Undefined with `scope: "anyone"`. */
  readonly scope: string | undefined;
  /** The value that the engine computes the fingerprint of; undefined to compare nothing. */
  readonly fingerprint: unknown;
  /** The bytes of the body that are held in memory. */
  readonly bodyBytes: number;
}

/** A refusal whose status may differ from that of its error code. */
export class RefusalWithStatus extends Error {
  readonly error: NevertwiceError;
  readonly status: number | undefined;

  constructor(error: NevertwiceError, status: number | undefined) {
    super(error.message);
    this.error = error;
    this.status = status;
  }
}

/** An operation has a maximum length, so a longer path is replaced by its digest. */
const MAX_PATH = 900;
const DIGEST = "sha256:";

/** Undefined if the request has no key and needs none. Throws the error that refuses the request. */
export async function admit<Native>(
  request: HttpRequest<Native>,
  options: ResolvedHttpOptions<Native>,
): Promise<AdmittedRequest | undefined> {
  const { keyField, maxBodyBytes, skip } = options;
  if (skip !== undefined && (await skip(request.native)) === true) return undefined;
  const body =
    keyField === undefined ? undefined : withinLimit(await request.readBody(maxBodyBytes), maxBodyBytes);
  const key = checkedKey(
    options.key !== undefined
      ? keyByFunction(await options.key(request.native))
      : body === undefined || keyField === undefined
        ? keyInHeader(request, options)
        : keyInBody(body, request.header("content-type"), keyField),
    options,
  );
  if (key === undefined) return undefined;
  const owner = options.scope === "anyone" ? undefined : options.scope(request.native);
  const scope = options.scope === "anyone" ? undefined : checkOwner(isThenable(owner) ? await owner : owner);
  if (options.authorize !== undefined && (await options.authorize(request.native)) !== true) {
    throw new NevertwiceError(
      "not-authorized",
      "the caller is not, or no longer, allowed to use this operation.",
    );
  }
  const target = normalTarget(originForm(request.target), request.route);
  const operation = nameOperation(request, target, options);
  const how = options.fingerprint;
  let read = body ?? NO_BODY;
  if (body === undefined && how !== "none" && how !== "content-digest") {
    const given = request.readBody(maxBodyBytes);
    read = withinLimit(isThenable(given) ? await given : given, maxBodyBytes);
  }
  const computed = toMeaning(request, target, read, options);
  const meaning = isThenable(computed) ? await computed : computed;
  const { meaning: ofProfile } = options.profile;
  const fingerprint =
    ofProfile === undefined || meaning === undefined
      ? meaning
      : ofProfile.of(meaning as readonly unknown[], request, options.header);
  return { key, operation, scope, fingerprint, bodyBytes: bytesIn(read, request) };
}

/** A parser has no longer the bytes of a body that it read. */
function bytesIn<Native>(body: RequestBody, request: HttpRequest<Native>): number {
  if (body.kind === "bytes") return body.bytes.byteLength;
  const length = Number(request.header("content-length"));
  return body.value === undefined || !(length > 0) ? 0 : length;
}

function toMeaning<Native>(
  request: HttpRequest<Native>,
  target: string,
  body: RequestBody,
  { fingerprint: how, keyField }: ResolvedHttpOptions<Native>,
): unknown {
  const own = typeof how === "function" ? { of: how } : how;
  if (typeof own === "object" && own.of !== undefined) {
    const { native, method } = request;
    const header = (name: string) => request.header(name);
    return ownMeaning({ native, method, target, header }, body, { of: own.of, without: own.without });
  }
  const compared = {
    method: request.method,
    target,
    contentType: request.header("content-type"),
    contentDigest: own === "content-digest" ? request.header("content-digest") : undefined,
  };
  return requestMeaning(compared, body, own as MeaningHow, keyField);
}

function keyByFunction(key: unknown): KeyReading {
  if (key === undefined || key === null) return undefined;
  if (typeof key === "string" && key !== "") return { key };
  return {
    refused: new NevertwiceError("key-invalid", "the key of this request is not a string, or is empty."),
  };
}

const NO_BODY: RequestBody = { kind: "parsed", value: undefined };

function withinLimit(body: RequestBody | "too-large", maxBodyBytes: number): RequestBody {
  if (body !== "too-large") return body;
  throw new NevertwiceError("body-too-large", `the body has more than ${maxBodyBytes} bytes.`);
}

function keyInHeader<Native>(request: HttpRequest<Native>, options: ResolvedHttpOptions<Native>): KeyReading {
  const { profile, strict } = options;
  if (profile.key !== undefined) return profile.key.read(request, keyContext(options));
  const name = options.header.toLowerCase();
  const value = request.header(name);
  if (value === undefined) return undefined;
  const { bareKeys } = profile;
  // Lines are counted only if it matters, since that takes a look at every header.
  const isOneLine = bareKeys === "any" && value.includes(",") && request.countLines?.(name) === 1;
  const parsed = parseKeyHeader(value, { strict, bareKeys, isOneLine });
  if ("key" in parsed) return parsed;
  return { refused: new NevertwiceError("key-invalid", `the header ${options.header}: ${parsed.problem}`) };
}

/** The context in which a profile judges a key. */
export function keyContext<Native>({ header, clock, retentionMs }: ResolvedHttpOptions<Native>): KeyContext {
  return { header, nowMs: clock.now(), retentionMs };
}

function checkedKey<Native>(reading: KeyReading, options: ResolvedHttpOptions<Native>): string | undefined {
  const { required, header, keyField, maxKeyLength, keyPattern, profile } = options;
  const carrier = () =>
    options.key !== undefined
      ? "a key"
      : keyField !== undefined
        ? `the field ${keyField}`
        : (profile.key?.carrier(header) ?? `the header ${header}`);
  if (reading === "exempt") return undefined;
  if (reading === undefined) {
    if (!required) return undefined;
    throw new NevertwiceError(
      "key-missing",
      `this operation requires ${keyField === undefined ? carrier() : describeKeyField(keyField)}. Send a unique value for every new request, and the same value with every retry of it.`,
    );
  }
  if ("refused" in reading) throw new RefusalWithStatus(reading.refused, reading.status);
  const { key } = reading;
  if (key.length > maxKeyLength)
    throw new NevertwiceError(
      "key-invalid",
      `${carrier()} has ${key.length} characters; ${maxKeyLength} is the limit.`,
    );
  if (keyPattern !== undefined && !keyPattern.test(key))
    throw new NevertwiceError("key-invalid", `${carrier()} must have the form ${keyPattern.source}.`);
  return key;
}

// An empty scope is refused: all unauthenticated callers would share it.
function checkOwner(scope: string | undefined): string {
  if (typeof scope === "string" && scope !== "")
    return checkedPart(scope, "the scope of the request", "request-invalid");
  throw new NevertwiceError(
    "scope-missing",
    "scope(request) returned no owner; mount authentication in front of this layer.",
  );
}

/** `target` is the request's, in origin form. */
function nameOperation<Native>(
  request: HttpRequest<Native>,
  target: string,
  options: ResolvedHttpOptions<Native>,
): string {
  const { operation = options.profile.operation } = options;
  if (typeof operation === "function") return checkOperation(operation(request.native));
  if (operation !== undefined) return operation;
  const end = target.indexOf("?");
  const path = end === -1 ? target : target.slice(0, end);
  const whole = `${request.method} ${path}`;
  // A path that looks like a digest is also replaced: otherwise it could equal the digest of another path.
  const isShort = path.length <= MAX_PATH && !path.startsWith(DIGEST) && utf8Bytes(whole) <= MAX_PART_BYTES;
  // A path with lone surrogates is refused: several such paths would have the same digest.
  if (isShort || !path.isWellFormed()) return checkOperation(whole);
  return `${request.method} ${DIGEST}${sha256(path, "hex")}`;
}

/** An invalid operation is `request-invalid`, since its text usually comes from the request. */
function checkOperation(operation: string): string {
  // An empty operation is a mistake of the application. The engine reports it.
  if (typeof operation !== "string" || operation === "") return operation;
  refuseReserved(operation, "the operation of the request", "request-invalid");
  return checkedPart(operation, "the operation of the request", "request-invalid");
}

/** One spelling for every path of a route that reaches the same handler. The query stays as it was sent. */
function normalTarget(target: string, route: MatchedRoute | undefined): string {
  if (route === undefined) return target;
  const start = target.indexOf("?");
  const end = start === -1 ? target.length : start;
  return normalPath(target.slice(0, end), route) + target.slice(end);
}

/** Path and query, also of a request target in absolute form, as a proxy receives it. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const start = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target);
  return start === null ? target : target.slice(start[0].length) || "/";
}
