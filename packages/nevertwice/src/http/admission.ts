/** What a request must be before anything is looked up for it: named, owned, allowed, small enough, and fingerprinted. */
import { Buffer } from "node:buffer";
import { hash } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart, MAX_PART_BYTES } from "../core/identity.ts";
import type { HttpRequest, RequestBody } from "./exchange.ts";
import { timesNamed } from "./json-member.ts";
import { parseKeyHeader } from "./key-header.ts";
import { meaningOf } from "./meaning.ts";
import type { KeyContext, KeyReading } from "./profile.ts";
import type { Settings } from "./settings.ts";

/** A request that may be looked up. */
export interface Admitted {
  readonly key: string;
  readonly operation: string;
  /** Undefined if its keys belong to anyone. */
  readonly scope: string | undefined;
  /** What it means. */
  readonly fingerprint: unknown;
}

/** A refusal with a status other than its code's. */
export class Refused extends Error {
  readonly error: NevertwiceError;
  readonly status: number | undefined;

  constructor(error: NevertwiceError, status: number | undefined) {
    super(error.message);
    this.error = error;
    this.status = status;
  }
}

/** Longer paths are named by their digest: an operation has its limit. */
const MAX_PATH = 900;
const DIGEST = "sha256:";

/** Undefined if the request has no key and needs none. Throws what it lacks. */
export async function admit<Native>(
  request: HttpRequest<Native>,
  settings: Settings<Native>,
): Promise<Admitted | undefined> {
  const { keyField } = settings;
  const body = keyField === undefined ? undefined : await readBody(request, settings);
  const key = checkedKey(
    body === undefined || keyField === undefined ? keyInHeader(request, settings) : keyInBody(body, keyField),
    settings,
  );
  if (key === undefined) return undefined;
  const scope = settings.scope === "anyone" ? undefined : ownerOf(await settings.scope(request.native));
  if (settings.authorize !== undefined && (await settings.authorize(request.native)) !== true) {
    throw new NevertwiceError("not-authorized", "the caller may not use this operation, or may no more.");
  }
  const operation = operationOf(request, settings);
  const how = settings.fingerprint;
  const isBodyNeeded = how !== "none" && how !== "content-digest";
  const read = body ?? (isBodyNeeded ? await readBody(request, settings) : NO_BODY);
  const meaning = meaningOf(
    {
      method: request.method,
      target: originForm(request.target),
      contentType: request.header("content-type"),
      contentDigest: request.header("content-digest"),
    },
    read,
    how,
    keyField,
  );
  const { meaning: ofProfile } = settings.profile;
  const fingerprint =
    ofProfile === undefined || meaning === undefined
      ? meaning
      : ofProfile.of(meaning as readonly unknown[], request, settings.header);
  return { key, operation, scope, fingerprint };
}

const NO_BODY: RequestBody = { kind: "parsed", value: undefined };

async function readBody<Native>(
  request: HttpRequest<Native>,
  { maxBodyBytes }: Settings<Native>,
): Promise<RequestBody> {
  const body = await request.readBody(maxBodyBytes);
  if (body !== "too-large") return body;
  throw new NevertwiceError("body-too-large", `the body has more than ${maxBodyBytes} bytes.`);
}

function keyInHeader<Native>(request: HttpRequest<Native>, settings: Settings<Native>): KeyReading {
  const { profile, strict } = settings;
  if (profile.key !== undefined) return profile.key.read(request, keyContext(settings));
  const value = request.header(settings.header.toLowerCase());
  if (value === undefined) return undefined;
  const parsed = parseKeyHeader(value, { strict });
  if ("key" in parsed) return parsed;
  return { refused: new NevertwiceError("key-invalid", `the header ${settings.header}: ${parsed.problem}`) };
}

/** What a profile judges a key by. */
export function keyContext<Native>({ header, clock, retentionMs }: Settings<Native>): KeyContext {
  return { header, nowMs: clock.now(), retentionMs };
}

function keyInBody(body: RequestBody, field: string): KeyReading {
  const json = body.kind === "parsed" ? undefined : textIn(body.bytes);
  const value: unknown = body.kind === "parsed" ? body.value : parsedJson(json);
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, field)) return undefined;
  const key = (value as Record<string, unknown>)[field];
  const refused = (problem: string) => ({
    refused: new NevertwiceError("key-invalid", `the member ${field} ${problem}.`),
  });
  if (typeof key !== "string" || key === "") return refused("must be a string that is not empty");
  // The handler may read the other one.
  if (json !== undefined && timesNamed(json, field) > 1) return refused("is there more than once");
  return { key };
}

function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parsedJson(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

function checkedKey<Native>(reading: KeyReading, settings: Settings<Native>): string | undefined {
  const { required, header, keyField, maxKeyLength, keyPattern, profile } = settings;
  const carrier =
    keyField !== undefined
      ? `the member ${keyField}`
      : (profile.key?.carrier(header) ?? `the header ${header}`);
  if (reading === "exempt") return undefined;
  if (reading === undefined) {
    if (!required) return undefined;
    throw new NevertwiceError(
      "key-missing",
      `this operation needs ${carrier}: a value of your own, new for every new request and the same on every retry of it.`,
    );
  }
  if ("refused" in reading) throw new Refused(reading.refused, reading.status);
  const { key } = reading;
  if (key.length > maxKeyLength)
    throw new NevertwiceError(
      "key-invalid",
      `${carrier} has ${key.length} characters; ${maxKeyLength} is the limit.`,
    );
  if (keyPattern !== undefined && !keyPattern.test(key))
    throw new NevertwiceError("key-invalid", `${carrier} must have the form ${keyPattern.source}.`);
  return key;
}

// An empty owner is nobody, and nobody's keys would be everybody's.
function ownerOf(scope: string | undefined): string {
  if (typeof scope === "string" && scope !== "")
    return checkedPart(scope, "what names the owner of the request (scope)", "request-invalid");
  throw new NevertwiceError("scope-missing", "scope(request) named nobody; authenticate before this layer.");
}

function operationOf<Native>(request: HttpRequest<Native>, settings: Settings<Native>): string {
  const { operation = settings.profile.operation } = settings;
  if (typeof operation === "function") return namedBy(operation(request.native));
  if (operation !== undefined) return operation;
  const target = originForm(request.target);
  const end = target.indexOf("?");
  const path = end === -1 ? target : target.slice(0, end);
  const whole = `${request.method} ${path}`;
  // A path that looks like a digest is made one too: else it could be the digest of another path.
  const isShort =
    path.length <= MAX_PATH && !path.startsWith(DIGEST) && Buffer.byteLength(whole) <= MAX_PART_BYTES;
  // Two paths that are no text must not have one digest.
  if (isShort || !path.isWellFormed()) return namedBy(whole);
  return `${request.method} ${DIGEST}${hash("sha256", path, "hex")}`;
}

/** What it names usually comes from the request, so a name that cannot be one is the request's fault. */
function namedBy(operation: string): string {
  // Nothing at all is the application's fault, which the engine tells.
  if (typeof operation !== "string" || operation === "") return operation;
  return checkedPart(operation, "what names the operation of the request", "request-invalid");
}

/** Path and query, also where a proxy was sent the whole address. */
function originForm(target: string): string {
  if (target.startsWith("/")) return target;
  const start = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target);
  return start === null ? target : target.slice(start[0].length) || "/";
}
