/** Tests that tokens are unguessable and never repeat. */
import { expect, test } from "vitest";
import { randomToken } from "../../src/core/token.ts";

/** The first token of this process. */
const firstToken = randomToken();

test("tokens are 128 bits of base64url and never repeat", () => {
  const tokens = [firstToken, ...Array.from({ length: 2_000 }, randomToken)];
  expect(new Set(tokens).size).toBe(2_001);
  for (const token of tokens) expect(token).toMatch(/^[A-Za-z0-9_-]{22}$/);
});
