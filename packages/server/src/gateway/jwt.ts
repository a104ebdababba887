/**
 * JSON Web Tokens, as far as somebody is told from others by one: the signature, the times, and by whom and for whom it
 * was made. Which algorithms count is said by the kind of key, never by the token.
 */
import { createHmac, createPublicKey, type KeyObject, timingSafeEqual, verify } from "node:crypto";

export type JwtKey =
  | { readonly kind: "secret"; readonly secret: string }
  | { readonly kind: "public"; readonly key: KeyObject };

export interface JwtRules {
  readonly key: JwtKey;
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
}

/** How far clocks may differ. */
const SKEW_SECONDS = 30;
/** A longer one is no token. */
const MAX_LENGTH = 16_384;

const SECRET_ALGORITHMS: Readonly<Record<string, string>> = {
  HS256: "sha256",
  HS384: "sha384",
  HS512: "sha512",
};

/** By the kind of key: the algorithm, and the digest that node is told. Ed25519 has its own. */
const PUBLIC_ALGORITHMS: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  rsa: { RS256: "sha256", RS384: "sha384", RS512: "sha512" },
  "ec:prime256v1": { ES256: "sha256" },
  "ec:secp384r1": { ES384: "sha384" },
  "ec:secp521r1": { ES512: "sha512" },
  ed25519: { EdDSA: null },
};

/** A key or a certificate in PEM. Throws if it is neither, or of a kind that signs no tokens. */
export function publicKey(pem: string): JwtKey {
  const key = createPublicKey(pem);
  if (algorithmsOf(key) === undefined)
    throw new Error(`a key of type ${key.asymmetricKeyType} signs no tokens`);
  return { kind: "public", key };
}

/** What the token says, or undefined if it is not to be believed at this time. */
export function claimsOf(
  token: string,
  { key, issuer, audience }: JwtRules,
  nowMs: number,
): Readonly<Record<string, unknown>> | undefined {
  const parts = token.length > MAX_LENGTH ? [] : token.split(".");
  const [head, body, signature] = parts;
  if (parts.length !== 3 || head === undefined || body === undefined || signature === undefined)
    return undefined;
  const header = objectIn(head);
  // `crit` names what must be understood; nothing of it is.
  if (header === undefined || typeof header.alg !== "string" || header.crit !== undefined) return undefined;
  if (!isSigned(key, header.alg, `${head}.${body}`, Buffer.from(signature, "base64url"))) return undefined;
  const claims = objectIn(body);
  if (claims === undefined || !isInTime(claims, nowMs / 1_000)) return undefined;
  if (issuer !== undefined && claims.iss !== issuer) return undefined;
  if (audience !== undefined && ![claims.aud].flat().includes(audience)) return undefined;
  return claims;
}

function isSigned(key: JwtKey, algorithm: string, content: string, signature: Buffer): boolean {
  if (key.kind === "secret") {
    const digest = Object.hasOwn(SECRET_ALGORITHMS, algorithm) ? SECRET_ALGORITHMS[algorithm] : undefined;
    if (digest === undefined) return false;
    const right = createHmac(digest, key.secret).update(content).digest();
    return right.length === signature.length && timingSafeEqual(right, signature);
  }
  const known = algorithmsOf(key.key);
  const digest = known !== undefined && Object.hasOwn(known, algorithm) ? known[algorithm] : undefined;
  if (digest === undefined) return false;
  // Of an elliptic curve a token has the two numbers side by side.
  return verify(digest, Buffer.from(content), { key: key.key, dsaEncoding: "ieee-p1363" }, signature);
}

function algorithmsOf(key: KeyObject): Readonly<Record<string, string | null>> | undefined {
  const type = key.asymmetricKeyType ?? "";
  return PUBLIC_ALGORITHMS[type === "ec" ? `ec:${key.asymmetricKeyDetails?.namedCurve}` : type];
}

function isInTime({ exp, nbf }: Readonly<Record<string, unknown>>, nowSeconds: number): boolean {
  if (exp !== undefined && !(typeof exp === "number" && nowSeconds < exp + SKEW_SECONDS)) return false;
  return nbf === undefined || (typeof nbf === "number" && nowSeconds >= nbf - SKEW_SECONDS);
}

function objectIn(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}
