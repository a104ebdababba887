/** Reads a `Content-Digest` header (RFC 9530): a Dictionary of algorithms and their digests of the body. */
import { fromBase64, toBase64 } from "../core/bytes.ts";
import { NevertwiceError } from "../core/errors.ts";
import { readDictionary } from "./structured-field.ts";

/**
 * The accepted algorithms, the preferred one first. SHA-256 comes first because we compute it for bodies ourselves: a
 * client that starts to send SHA-512 next to it still matches its earlier requests.
 */
const ALGORITHMS = [
  { name: "sha-256", length: 32 },
  { name: "sha-512", length: 64 },
] as const;

export interface ContentDigest {
  readonly algorithm: "sha-256" | "sha-512";
  /** Canonical base64. */
  readonly digest: string;
}

/** Throws `fingerprint-invalid` if the header has no usable digest. Does not check that it matches the body. */
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
