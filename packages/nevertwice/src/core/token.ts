/** Tokens, which cannot be guessed and never repeat. */
import { randomBytes } from "node:crypto";
import { NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";

const TOKEN_BYTES = 16;
/** One large `randomBytes` call is much cheaper than many small ones. */
const POOL_BYTES = 4_096;

/** Created at the first call: some platforms do not allow random bytes while a module loads. */
let pool: Buffer | undefined;
let used = 0;

/** 128 random bits as 22 characters. That is shorter than a UUID, and a flat string, while Node builds a UUID from many pieces. */
export function randomToken(): string {
  if (pool === undefined || used === pool.length) {
    pool = randomBytes(POOL_BYTES);
    used = 0;
  }
  used += TOKEN_BYTES;
  return pool.toString("base64url", used - TOKEN_BYTES, used);
}

/** A token owns its claim, so it must not be guessable. */
const LEAST_LENGTH = 16;

/** Checks a token that a caller brought. Throws `options-invalid` if it is short enough to be guessed. */
export function checkedToken(token: unknown): string {
  const text = checkedPart(token, "token", "options-invalid");
  if (text.length >= LEAST_LENGTH) return text;
  throw new NevertwiceError(
    "options-invalid",
    `token has ${text.length} characters; use a random one of at least ${LEAST_LENGTH} characters, such as a UUID.`,
  );
}
