/** An outcome comes back exactly as it was given, whatever its text is. It is well-formed and has no U+0000. */
import { expect } from "./expect.ts";
import type { GuaranteeCases, Trial } from "./trial.ts";

const MEBIBYTE = 1_048_576;

/** Completed with this text, the key answers with it, and reads with it. */
async function comesBack({ work }: Trial, outcome: string): Promise<void> {
  await (await work.begin()).complete(outcome);
  const answer = await work.attempt().claim();
  expect("another token's claim", answer, { status: "completed", outcome });
  expect("the record", await work.record(), { outcome });
}

async function eachComesBack(trial: Trial, outcomes: readonly string[]): Promise<void> {
  for (const outcome of outcomes) await comesBack({ ...trial, work: trial.another() }, outcome);
}

/** Every character that is no surrogate, from `first` to `last`. */
function characters(first: number, last: number): string {
  let text = "";
  for (let code = first; code <= last; code++)
    text += code < 0xd800 || code > 0xdfff ? String.fromCodePoint(code) : "";
  return text;
}

export const bytesExact: GuaranteeCases = {
  "every character of one byte comes back": {
    why: "Quotes, backslashes, percent signs and control characters have a meaning in many databases.",
    check: (trial) => comesBack(trial, characters(0x01, 0x7f)),
  },
  "every character of two and three bytes comes back": {
    why: "A store with a narrower character set keeps question marks instead.",
    check: (trial) => comesBack(trial, characters(0x80, 0xffff)),
  },
  "characters of four bytes come back": {
    why: "Some databases call three bytes UTF-8.",
    check: (trial) => comesBack(trial, "\u{1F4B3}\u{10FFFF}\u{1F469}\u200D\u{1F4BB}"),
  },
  "composed and decomposed characters stay what they were": {
    why: "A store that normalizes text changes what a signature was made over.",
    check: (trial) => eachComesBack(trial, ["\u00e9", "e\u0301", "\ufb01", "\u212b"]),
  },
  "an empty outcome comes back empty": {
    why: "An empty outcome is not the same as no outcome.",
    check: (trial) => comesBack(trial, ""),
  },
  "white space at both ends comes back": {
    why: "Columns that trim lose it.",
    check: (trial) => comesBack(trial, " \t\r\n done \r\n"),
  },
  "text that looks like an encoding comes back as it is": {
    why: "A store that guesses an encoding decodes text that was never encoded.",
    check: (trial) =>
      eachComesBack(trial, ["ZG9uZQ==", "\\x646f6e65", '"done"', "null", "1e3", "\ufeffdone"]),
  },
  "a mebibyte comes back": {
    why: "That is the default limit of an outcome, unless the store names a smaller one.",
    check(trial) {
      const length = Math.min(MEBIBYTE, trial.store.maxOutcomeBytes ?? MEBIBYTE);
      return comesBack(
        trial,
        characters(0x20, 0x7e)
          .repeat(Math.ceil(length / 95))
          .slice(0, length),
      );
    },
  },
};
