/** Tokens, which cannot be guessed and never repeat. */
import { createRandomText } from "#platform";
import { NevertwiceError } from "./errors.ts";
import { checkedPart } from "./identity.ts";

/** 128 random bits as 22 characters. That is shorter than a UUID, and a flat string, while Node builds a UUID from many pieces. */
export const randomToken = createRandomText(16);

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
