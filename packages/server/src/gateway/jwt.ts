/**
 * Verifies JSON Web Tokens. `jose` checks the signature, the times, the issuer and the audience. The type of the key
 * decides which algorithms are allowed, never the token.
 */
import { createPublicKey, type KeyObject, webcrypto } from "node:crypto";
import { jwtVerify } from "jose";

/** A key that verifies tokens. */
export interface JwtKey {
  readonly algorithms: readonly string[];
  /** The key for one of these algorithms, imported once. */
  keyFor(algorithm: string): KeyObject | Promise<webcrypto.CryptoKey>;
}

export interface JwtRules {
  readonly key: JwtKey;
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
}

/** How far the clocks of issuer and gateway may differ. */
const CLOCK_TOLERANCE_SECONDS = 30;
/** Longer tokens are refused without parsing them. */
const MAX_TOKEN_LENGTH = 16_384;
const MIN_RSA_BITS = 2_048;

const SECRET_ALGORITHMS = ["HS256", "HS384", "HS512"] as const;

/** The allowed algorithms by key type. `EdDSA` and `Ed25519` are two names of one algorithm. */
const PUBLIC_ALGORITHMS: ReadonlyMap<string, readonly string[]> = new Map([
  ["rsa", ["RS256", "RS384", "RS512"]],
  ["ec:prime256v1", ["ES256"]],
  ["ec:secp384r1", ["ES384"]],
  ["ec:secp521r1", ["ES512"]],
  ["ed25519", ["EdDSA", "Ed25519"]],
]);

export function secretKey(secret: string): JwtKey {
  const imported = new Map<string, Promise<webcrypto.CryptoKey>>();
  return {
    algorithms: SECRET_ALGORITHMS,
    keyFor(algorithm) {
      const key = imported.get(algorithm) ?? importSecret(secret, algorithm);
      imported.set(algorithm, key);
      return key;
    },
  };
}

function importSecret(secret: string, algorithm: string): Promise<webcrypto.CryptoKey> {
  const how = { name: "HMAC", hash: `SHA-${algorithm.slice("HS".length)}` };
  return webcrypto.subtle.importKey("raw", Buffer.from(secret), how, false, ["verify"]);
}

/** Reads a public key or a certificate in PEM. Throws if it is neither, or has a type that cannot verify tokens. */
export function publicKey(pem: string): JwtKey {
  const key = createPublicKey(pem);
  const { asymmetricKeyType: type = "", asymmetricKeyDetails: details } = key;
  const algorithms = PUBLIC_ALGORITHMS.get(type === "ec" ? `ec:${details?.namedCurve}` : type);
  if (algorithms === undefined) throw new Error(`keys of type ${type} are not supported`);
  if (type === "rsa" && (details?.modulusLength ?? 0) < MIN_RSA_BITS)
    throw new Error(`an RSA key needs ${MIN_RSA_BITS} bits or more`);
  return { algorithms, keyFor: () => key };
}

/**
 * The text of the token's payload, a JSON object in UTF-8. Undefined if the token is malformed, not signed with this key,
 * not valid at this time, or not from this issuer or for this audience.
 */
export async function verifiedPayload(
  token: string,
  { key, issuer, audience }: JwtRules,
  nowMs: number,
): Promise<string | undefined> {
  if (token.length > MAX_TOKEN_LENGTH) return undefined;
  try {
    const { protectedHeader } = await jwtVerify(token, ({ alg }) => key.keyFor(alg), {
      algorithms: [...key.algorithms],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: new Date(nowMs),
      ...(issuer !== undefined && { issuer }),
      ...(audience !== undefined && { audience }),
    });
    // `crit` lists extensions that a verifier must understand. The gateway accepts none, even those that jose knows.
    if (protectedHeader.crit !== undefined) return undefined;
  } catch {
    return undefined;
  }
  return Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8");
}
