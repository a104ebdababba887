/** Reads a `Content-Digest` header (RFC 9530): a Dictionary of algorithms and what they made of the body's bytes. */
import { fromBase64, toBase64 } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { readDictionary } from "./structured-field.ts";

/**
 * The algorithms that are fit for telling requests apart, the preferred one first: SHA-256 is what we make of the bytes
 * ourselves, and a client that begins to send another one beside it still matches what it sent before.
 */
const ALGORITHMS = [
  { name: "sha-256", length: 32 },
  { name: "sha-512", length: 64 },
] as const;

export interface ContentDigest {
  readonly algorithm: "sha-256" | "sha-512";
  /** In base64, spelt the one canonical way. */
  readonly digest: string;
}

/** Fails with `fingerprint-invalid` if there is no digest to go by. Whether it is true of the body is not checked. */
export function readContentDigest(header: string | undefined): ContentDigest {
  if (header === undefined) throw invalid("is missing");
  const members = readDictionary(header);
  if (members === undefined) throw invalid("is malformed");
  for (const { name, length } of ALGORITHMS) {
    const item = members.get(name);
    if (item === undefined) continue;
    const bytes = item.startsWith(":") ? fromBase64(item.slice(1, -1)) : undefined;
    if (bytes?.length !== length) throw invalid(`has a ${name} that is not ${length} bytes in base64`);
    return { algorithm: name, digest: toBase64(bytes) };
  }
  throw invalid("has neither sha-256 nor sha-512");
}

function invalid(found: string): NevertwiceError {
  return new NevertwiceError(
    "fingerprint-invalid",
    `the Content-Digest header ${found}; send the body's SHA-256 as \`Content-Digest: sha-256=:base64:\` (RFC 9530).`,
  );
}
