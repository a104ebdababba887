/** Stores that change the bytes they keep, or let others change them. */
import type { Fault } from "../wrong-rules.ts";

export const bytesExact: readonly Fault[] = [
  {
    fault: "keeps text",
    rules: () => ({
      keepBytes: (bytes) =>
        new TextEncoder().encode(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)),
    }),
    caught: ["every byte value comes back", "a mebibyte comes back"],
  },
  {
    fault: "keeps nothing for an empty outcome",
    rules: () => ({
      answerBytes: (bytes) =>
        bytes.length === 0 ? (undefined as unknown as Uint8Array) : Uint8Array.from(bytes),
    }),
    caught: ["an empty outcome comes back empty"],
  },
  {
    fault: "cuts zeros off the end",
    rules: () => ({ keepBytes: (bytes) => bytes.slice(0, bytes.findLastIndex((byte) => byte !== 0) + 1) }),
    caught: ["zeros at both ends come back"],
  },
  {
    fault: "cuts line ends off the end",
    rules: () => ({ keepBytes: (bytes) => bytes.slice(0, bytes.findLastIndex((byte) => byte !== 10) + 1) }),
    caught: ["white space at both ends comes back"],
  },
  {
    fault: "unquotes what looks like JSON",
    rules: () => ({
      keepBytes: (bytes) => (bytes.at(0) === 34 && bytes.at(-1) === 34 ? bytes.slice(1, -1) : bytes.slice()),
    }),
    caught: ["bytes that look like an encoding come back as they are"],
  },
  {
    fault: "keeps 64 kibibytes",
    rules: () => ({ keepBytes: (bytes) => bytes.slice(0, 65_535) }),
    caught: ["a mebibyte comes back"],
  },
  {
    fault: "keeps the whole buffer that a part is of",
    rules: () => ({ keepBytes: (bytes) => new Uint8Array(bytes.buffer.slice(0)) }),
    caught: ["a part of a larger buffer comes back as that part"],
  },
  {
    fault: "keeps the caller's buffer",
    rules: () => ({ keepBytes: (bytes) => bytes }),
    caught: ["what the caller does to its buffer after complete is not kept"],
  },
  {
    fault: "answers with its own buffer",
    rules: () => ({ answerBytes: (bytes) => bytes }),
    caught: ["what a caller does to the outcome it was answered with is not kept"],
  },
  {
    fault: "lets its own buffer be read",
    rules: () => ({ readBytes: (bytes) => bytes }),
    caught: ["what a reader does to the outcome it read is not kept"],
  },
];
