/** An outcome comes back byte for byte, whatever its bytes are and whatever becomes of the buffers. */
import { expect } from "./expect.ts";
import type { Cases, Trial } from "./trial.ts";
import { bytesOf, DONE } from "./work.ts";

const MEBIBYTE = 1_048_576;

/** Completed with these bytes, the key answers with them, and reads with them. */
async function comesBack({ work }: Trial, outcome: Uint8Array): Promise<void> {
  await (await work.begin()).complete(outcome);
  const answer = await work.attempt().claim();
  expect("another token's claim", answer, { status: "completed", outcome });
  expect("the record", await work.record(), { outcome });
}

export const bytesExact: Cases = {
  "every byte value comes back": {
    why: "Outcomes are bytes, not text: a store that decodes them changes what is not UTF-8.",
    check: (trial) =>
      comesBack(
        trial,
        Uint8Array.from({ length: 512 }, (_, i) => i % 256),
      ),
  },
  "an empty outcome comes back empty": {
    why: "No bytes are not the same as no outcome.",
    check: (trial) => comesBack(trial, new Uint8Array()),
  },
  "zeros at both ends come back": {
    why: "Padded columns and strings that end at a zero lose them.",
    check: (trial) => comesBack(trial, Uint8Array.of(0, 0, 7, 0, 0)),
  },
  "white space at both ends comes back": {
    why: "Columns that trim lose it.",
    check: (trial) => comesBack(trial, bytesOf(" \t\r\n done \r\n")),
  },
  "bytes that look like an encoding come back as they are": {
    why: "A store that guesses at what it is given decodes what nobody encoded.",
    async check(trial) {
      for (const text of ["ZG9uZQ==", "\\x646f6e65", '"done"', "null", "\ufeffdone"]) {
        await comesBack({ ...trial, work: trial.another() }, bytesOf(text));
      }
    },
  },
  "a mebibyte comes back": {
    why: "That is how large an outcome may be by default, or as large as the store says that it takes.",
    check(trial) {
      const outcome = new Uint8Array(Math.min(MEBIBYTE, trial.store.maxOutcomeBytes ?? MEBIBYTE));
      for (let i = 0; i < outcome.length; i++) outcome[i] = i * 31 + (i >> 8);
      return comesBack(trial, outcome);
    },
  },
  "a part of a larger buffer comes back as that part": {
    why: "Buffers share their memory with strangers, whose bytes must not be kept with ours.",
    check: (trial) => comesBack(trial, bytesOf("before done after").subarray(7, 11)),
  },
  "what the caller does to its buffer after complete is not kept": {
    why: "Buffers are used again, and the outcome would change under everyone who is answered with it.",
    async check({ work }) {
      const owner = await work.begin();
      const buffer = DONE.slice();
      await owner.complete(buffer);
      buffer.fill(0);
      expect("another token's claim", await work.attempt().claim(), { status: "completed", outcome: DONE });
    },
  },
  "what a caller does to the outcome it was answered with is not kept": {
    why: "One duplicate would change what the next one gets.",
    async check({ work }) {
      await (await work.begin()).complete();
      const answer = await work.attempt().claim();
      expect("another token's claim", answer, { status: "completed" });
      (answer as { outcome: Uint8Array }).outcome.fill(0);
      expect("the next claim", await work.attempt().claim(), { status: "completed", outcome: DONE });
    },
  },
  "what a reader does to the outcome it read is not kept": {
    why: "Looking at a record must not change it.",
    async check({ work }) {
      await (await work.begin()).complete();
      (await work.record()).outcome?.fill(0);
      expect("the record read again", await work.record(), { outcome: DONE });
    },
  },
};
