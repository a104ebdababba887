/**
 * Compressed responses (RFC 9110, section 8.4). A service compresses a response for its first client; the retry may come
 * from a client that cannot read that coding. That client gets the same response uncompressed.
 *
 * A response that was compressed because its client accepts the coding is kept with `Vary: Accept-Encoding`. A response
 * that every client gets in that coding (a stored archive, for example) is replayed unchanged.
 */
import { toUtf8, unpack } from "#platform";
import { readParameters } from "./header-parameters.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";

/** Headers that describe the exact bytes of the first response. */
export const ABOUT_THE_BYTES: ReadonlySet<string> = new Set([
  "content-digest",
  "content-md5",
  "digest",
  "repr-digest",
]);

/** A response that unpacks to more bytes is sent compressed: a few kilobytes can unpack to gigabytes. */
const MAX_UNPACKED_BYTES = 16_777_216;

/** Whether a response with this head may have been compressed for the client that sent `Accept-Encoding: accepted`. */
export function isCodedFor(lines: readonly HeaderLine[], accepted: string | undefined): boolean {
  const codings = readCodings(lines);
  return codings.length > 0 && codings.every((coding) => accepts(accepted, coding));
}

/** The reply in a coding that the client can read. `accepted` is its `Accept-Encoding`. */
export async function decodeForClient(reply: HttpReply, accepted: string | undefined): Promise<HttpReply> {
  const { headers } = reply;
  if (!variesByCoding(reply)) return reply;
  const codings = readCodings(headers);
  if (codings.every((coding) => accepts(accepted, coding)) || !acceptsIdentity(accepted)) return reply;
  // A part of a compressed response cannot be unpacked without the rest.
  if (headers.some(([name]) => name === "content-range")) return reply;
  const body = await unpackBody(reply.body, codings);
  return body === undefined ? reply : { ...reply, headers: headers.flatMap(withoutCoding), body };
}

/** In the order in which they were applied. */
function readCodings(lines: readonly HeaderLine[]): readonly string[] {
  return lines
    .filter(([name]) => name.toLowerCase() === "content-encoding")
    .flatMap(([, value]) => value.split(","))
    .map((coding) => coding.trim().toLowerCase().replace(/^x-/, ""))
    .filter((coding) => coding !== "" && coding !== "identity");
}

/** Whether the reply depends on what its client accepts. Most replies do not. */
export function variesByCoding({ headers, body }: HttpReply): boolean {
  return body.length > 0 && headers.some(([name, value]) => name === "vary" && isByCoding(value));
}

/** Whether a value of `Vary` names `Accept-Encoding`. */
export function isByCoding(vary: string): boolean {
  return /(^|[\s,])(accept-encoding|\*)\s*(,|$)/i.test(vary);
}

/** A client without `Accept-Encoding` gets nothing compressed. The standard would allow it, but many clients cannot read it. */
function accepts(accepted: string | undefined, coding: string): boolean {
  const weights = readWeights(accepted);
  return (weights.get(coding) ?? weights.get("*") ?? 0) > 0;
}

/** An uncompressed response is acceptable unless the client excludes it by `identity;q=0` or `*;q=0`. */
function acceptsIdentity(accepted: string | undefined): boolean {
  const weights = readWeights(accepted);
  return (weights.get("identity") ?? weights.get("*") ?? 1) > 0;
}

function readWeights(accepted: string | undefined): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const part of accepted?.split(",") ?? []) {
    const read = readParameters(part);
    if (read === undefined) continue;
    const weight = Number(read.parameters.get("q") ?? 1);
    weights.set(read.value.replace(/^x-/, ""), Number.isFinite(weight) ? weight : 0);
  }
  return weights;
}

/** A strong `ETag` belongs to one coding only, so it becomes a weak one. */
function withoutCoding([name, value]: HeaderLine): readonly HeaderLine[] {
  if (name === "content-encoding" || ABOUT_THE_BYTES.has(name)) return [];
  return [name === "etag" && value.startsWith('"') ? [name, `W/${value}`] : [name, value]];
}

/** Undefined if this runtime does not know a coding, if the body is malformed, or if it is too long. */
async function unpackBody(
  body: Uint8Array | string,
  codings: readonly string[],
): Promise<Uint8Array | undefined> {
  let bytes: Uint8Array | undefined = typeof body === "string" ? toUtf8(body) : body;
  for (const coding of [...codings].reverse()) {
    bytes = await unpack(coding, bytes, MAX_UNPACKED_BYTES);
    if (bytes === undefined) return undefined;
  }
  return bytes;
}
