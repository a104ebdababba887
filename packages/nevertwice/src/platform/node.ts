/** What Node, Bun and Deno have for ids, fingerprints and tokens. `web.ts` is the same for other platforms. */
import { hash, randomBytes } from "node:crypto";

export type DigestEncoding = "hex" | "base64url";

/** The SHA-256 of bytes, or of text in UTF-8. */
export function sha256(data: string | Uint8Array, encoding: DigestEncoding): string {
  return hash("sha256", data, encoding);
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
