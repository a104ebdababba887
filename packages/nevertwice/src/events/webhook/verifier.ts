/** Verifies that a request comes from its sender. One verifier serves every scheme. */
import { createSignatureCheck, fromBase64, toUtf8 } from "#platform";
import { concatBytes } from "../../core/bytes.ts";
import type { Clock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { compositeKey, type Key } from "../../core/key.ts";
import type { Received } from "../receiver.ts";
import { type Field, type SignedPart, signedParts, TOLERANCE_MS, type WebhookScheme } from "./scheme.ts";

/** The secret that the sender signs with, as the sender shows it, or its bytes. */
export type Secret = string | Uint8Array;

export interface Verified {
  /** Undefined if the request has none. */
  readonly id: string | undefined;
  /** When the sender says that it sent the request, in milliseconds since the epoch; undefined if it does not say. */
  readonly sentAtMs: number | undefined;
}

interface SignedFields {
  readonly id: string | undefined;
  readonly timestamp: string | undefined;
}

/** Enough for any rotation of secrets, and few enough that a request cannot waste much time. */
const MAX_SIGNATURES = 20;

const SECONDS = /^\d{1,12}$/;

/** Throws `options-invalid` on an invalid secret. The returned function throws `signature-invalid`. */
export function createVerifier(
  scheme: WebhookScheme,
  secrets: readonly Secret[],
  { clock, toleranceMs = scheme.toleranceMs ?? TOLERANCE_MS }: { clock: Clock; toleranceMs?: number },
): (received: Received) => Promise<Verified> {
  const { id: place, timestamp: timestampField, signature, signed } = scheme;
  const parts = signedParts(signed);
  const matches = createMatcher(scheme, secrets);

  return async (received) => {
    const id = "header" in place ? readId(scheme, received) : undefined;
    const timestamp = timestampField && headerElements(received, timestampField)[0];
    if (timestampField !== undefined) checkTime(timestamp, clock.now(), toleranceMs);
    const given = headerElements(received, signature).slice(0, MAX_SIGNATURES);
    if (given.length === 0) throw invalid("the request has no signature that fits the scheme.");
    if (!(await matches(signedBytes(parts, received, { id, timestamp }), given)))
      throw invalid("no signature matches the request.");
    return {
      id: id ?? readId(scheme, received),
      sentAtMs: timestamp === undefined ? undefined : Number(timestamp) * 1_000,
    };
  };
}

/** The elements of the header that have the prefix, without the prefix. */
function headerElements(received: Received, { header, prefix = "", separator }: Field): readonly string[] {
  const value = received.header(header) ?? "";
  const elements = separator === undefined ? [value] : value.split(separator);
  return elements
    .map((element) => element.trim())
    .filter((element) => element.startsWith(prefix) && element.length > prefix.length)
    .map((element) => element.slice(prefix.length));
}

function checkTime(timestamp: string | undefined, now: number, toleranceMs: number): void {
  if (timestamp === undefined || !SECONDS.test(timestamp)) throw invalid("the request has no timestamp.");
  const awayMs = Math.abs(Math.floor(now / 1_000) - Number(timestamp)) * 1_000;
  if (awayMs > toleranceMs) throw invalid("the timestamp of the request is too far from the current time.");
}

function signedBytes(parts: readonly SignedPart[], received: Received, claims: SignedFields): Uint8Array {
  const pieces = parts.map((part, index) => {
    switch (part.kind) {
      case "text":
        return part.text;
      case "body":
        return received.body;
      case "form":
        return formText(received);
      case "url":
        if (received.url === undefined) throw invalid("the URL of the request is not known.");
        return received.url;
      default: {
        const value = claims[part.kind] ?? "";
        const next = parts[index + 1];
        // If the value contained the text that follows it, two different requests could have the same signature.
        if (value === "" || (next?.kind === "text" && value.includes(next.text)))
          throw invalid(`the ${part.kind} is missing, or contains the text that follows it.`);
        return value;
      }
    }
  });
  const bytes = pieces.map((piece) => (typeof piece === "string" ? toUtf8(piece) : piece));
  return concatBytes(
    bytes,
    bytes.reduce((sum, { length }) => sum + length, 0),
  );
}

/** All names and values, sorted, with nothing between them. */
function formText(received: Received): string {
  if (received.body.byteLength === 0) return "";
  const type = received.header("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  // The signature would not cover any other kind of body.
  if (type !== "application/x-www-form-urlencoded")
    throw invalid("the body is not a form, which is what the sender signs.");
  const pairs = [...new URLSearchParams(received.text())].map(([name, value]) => ({ name, value }));
  return pairs
    .sort((a, b) => compare(a.name, b.name) || compare(a.value, b.value))
    .map(({ name, value }) => name + value)
    .join("");
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The sender's id for the event. An id in the body is read only after the body was verified. */
export function readId({ id }: WebhookScheme, received: Received): string | undefined {
  if ("header" in id) return received.header(id.header);
  const found = bodyMember(received, id.json);
  return found === undefined ? undefined : String(found);
}

/** The key of the event. The ids 1 and "1" are different keys. Throws `key-invalid` for a number above 2^53. */
export function idKey({ id }: WebhookScheme, received: Received): string | Key | undefined {
  if ("header" in id) return received.header(id.header);
  const found = bodyMember(received, id.json);
  return found === undefined || found === "" ? undefined : compositeKey(found);
}

function bodyMember(received: Received, name: string): string | number | undefined {
  try {
    const body = received.json();
    if (typeof body !== "object" || body === null || !Object.hasOwn(body, name)) return undefined;
    const found = (body as Readonly<Record<string, unknown>>)[name];
    return typeof found === "string" || typeof found === "number" ? found : undefined;
  } catch {
    return undefined;
  }
}

type SignatureMatcher = (signed: Uint8Array, given: readonly string[]) => Promise<boolean>;

/** Returns whether any of the signatures is valid for any of the secrets. */
function createMatcher(scheme: WebhookScheme, secrets: readonly Secret[]): SignatureMatcher {
  const { digest, encoding } = scheme.signature;
  const checks = secrets.map((secret) => {
    const key = secretBytes(scheme, secret);
    if (digest === "ed25519" && key.length !== 32)
      throw new NevertwiceError("options-invalid", "secret must be a public key of 32 bytes for ed25519.");
    return createSignatureCheck(digest, key);
  });
  return async (signed, given) => {
    for (const text of given) {
      const signature = decodedBytes(text, encoding);
      for (const check of checks) if (await check(signed, signature)) return true;
    }
    return false;
  };
}

function secretBytes({ secret: form }: WebhookScheme, secret: Secret): Uint8Array {
  const { encoding = "text", prefix = "" } = form ?? {};
  const bytes = typeof secret === "string" ? decoded(secret, encoding, prefix) : secret;
  if (bytes instanceof Uint8Array && bytes.length > 0) return bytes;
  throw new NevertwiceError(
    "options-invalid",
    `secret must be ${encoding === "text" ? "text" : `${encoding} text`} or bytes, and not empty.`,
  );
}

const ENCODED = { hex: /^([0-9a-f]{2})+$/i, base64: /^[A-Za-z0-9+/]+={0,2}$/ } as const;

function decoded(
  secret: string,
  encoding: "text" | "hex" | "base64",
  prefix: string,
): Uint8Array | undefined {
  const text = secret.startsWith(prefix) ? secret.slice(prefix.length) : secret;
  if (encoding === "text") return toUtf8(text);
  return ENCODED[encoding].test(text) ? decodedBytes(text, encoding) : undefined;
}

/** What cannot be decoded is left out, and then matches no signature. */
function decodedBytes(text: string, encoding: "hex" | "base64"): Uint8Array {
  if (encoding === "base64") return fromBase64(text);
  return Uint8Array.from(text.match(/^([0-9a-f]{2})*/i)?.[0].match(/../g) ?? [], (pair) =>
    Number.parseInt(pair, 16),
  );
}

export function invalid(why: string): NevertwiceError {
  return new NevertwiceError("signature-invalid", why);
}
