/** Helpers that the tests of `protect` share. */
import { expect } from "vitest";

export const failure = (code: string, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });
