/**
 * What Node, Bun and Deno have for ids, tokens and bytes. `web.ts` is the same for other platforms. The front door loads this
 * file, so it imports one module only, and takes `Buffer` from the global object.
 */
import {
  createHmac,
  createPublicKey,
  hash,
  randomBytes,
  randomUUID,
  timingSafeEqual,
  verify,
} from "node:crypto";

export type DigestEncoding = "hex" | "base64" | "base64url";

export type SignatureDigest = "hmac-sha256" | "hmac-sha1" | "ed25519";

/** Whether the signature of these bytes is valid. */
export type SignatureCheck = (signed: Uint8Array, signature: Uint8Array) => boolean | Promise<boolean>;

/**
 * Whether a call may wait for what another call has started: a timer, a read, a promise. Here all calls share one event
 * loop.
 */
export const canShareAcrossCalls: boolean = true;

/** The SHA-256 of bytes, or of text in UTF-8. */
export function sha256(data: string | Uint8Array, encoding: DigestEncoding): string {
  return hash("sha256", data, encoding);
}

/** The SHA-1 of text in UTF-8, as hex: Redis names scripts by it. */
export function sha1(text: string): string {
  return hash("sha1", text, "hex");
}

/** Returns a function that gives unguessable text, with `size` random bytes each time. */
export function createRandomText(size: number): () => string {
  /** One large `randomBytes` call is much cheaper than many small ones. */
  const poolBytes = 256 * size;
  /** Created at the first call: some platforms do not allow random bytes while a module loads. */
  let pool: Buffer | undefined;
  let used = 0;
  return () => {
    if (pool === undefined || used === poolBytes) {
      pool = randomBytes(poolBytes);
      used = 0;
    }
    used += size;
    return pool.toString("base64url", used - size, used);
  };
}

export function newUuid(): string {
  return randomUUID();
}

/** The length of the text in UTF-8. */
export function utf8Bytes(text: string): number {
  return Buffer.byteLength(text);
}

/** The text in UTF-8. */
export function toUtf8(text: string): Uint8Array<ArrayBuffer> {
  return Buffer.from(text);
}

let isUtf8: typeof import("node:buffer").isUtf8 | undefined;

/** The text of bytes in UTF-8. Undefined if they are not UTF-8. */
export function fromUtf8(bytes: Uint8Array): string | undefined {
  isUtf8 ??= process.getBuiltinModule("node:buffer").isUtf8;
  return isUtf8(bytes) ? toBuffer(bytes).toString("utf8") : undefined;
}

export function toBase64(bytes: Uint8Array): string {
  return toBuffer(bytes).toString("base64");
}

/** Also takes the alphabet for URLs, and text without padding. Characters that are in neither alphabet are left out. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  // A copy, since small Buffers share one ArrayBuffer, and the caller may read `buffer`.
  return new Uint8Array(Buffer.from(text, "base64"));
}

export function toHex(bytes: Uint8Array): string {
  return toBuffer(bytes).toString("hex");
}

/** `text` has only hexadecimal digits, two for each byte. */
export function fromHex(text: string): Uint8Array {
  return Buffer.from(text, "hex");
}

/** The same bytes, without a copy. */
function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The DER prefix of the 32 bytes of an Ed25519 public key (RFC 8410). */
const SPKI_HEAD = Buffer.from("302a300506032b6570032100", "hex");

/** `key` is the secret of an HMAC, or a public key of 32 bytes. */
export function createSignatureCheck(digest: SignatureDigest, key: Uint8Array): SignatureCheck {
  if (digest === "ed25519") {
    const der = Buffer.concat([SPKI_HEAD, key]);
    const publicKey = createPublicKey({ key: der, format: "der", type: "spki" });
    return (signed, signature) => verify(null, signed, publicKey, signature);
  }
  const algorithm = digest.slice("hmac-".length);
  return (signed, signature) => {
    const expected = createHmac(algorithm, key).update(signed).digest();
    return expected.length === signature.length && timingSafeEqual(expected, signature);
  };
}

type Unpack = (
  bytes: Uint8Array,
  options: { readonly maxOutputLength: number },
  done: (error: Error | null, result: Uint8Array) => void,
) => void;

/** The zlib function for each coding. Only newer versions of Node have zstd. */
const UNPACKED_BY: ReadonlyMap<string, string> = new Map([
  ["gzip", "gunzip"],
  ["deflate", "inflate"],
  ["br", "brotliDecompress"],
  ["zstd", "zstdDecompress"],
]);

/**
 * Unpacks bytes in a content coding of HTTP. Undefined if the runtime does not know the coding, if the bytes are malformed,
 * or if they unpack to more than `maxBytes`.
 */
export async function unpack(
  coding: string,
  bytes: Uint8Array,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  // Loaded on demand: few replays need it.
  const zlib = process.getBuiltinModule("node:zlib") as unknown as Readonly<Record<string, unknown>>;
  const unpackWhole = zlib[UNPACKED_BY.get(coding) ?? ""] as Unpack | undefined;
  if (unpackWhole === undefined) return undefined;
  return new Promise((resolve) => {
    unpackWhole(bytes, { maxOutputLength: maxBytes }, (error, result) =>
      resolve(error === null ? result : undefined),
    );
  });
}
