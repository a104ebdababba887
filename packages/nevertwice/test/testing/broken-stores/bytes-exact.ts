/** Stores that change the text they keep. */
import type { Fault } from "../wrong-rules.ts";

export const bytesExact: readonly Fault[] = [
  {
    fault: "unescapes what it was not asked to",
    rules: () => ({ keepText: (text) => text.replaceAll("%%", "%").replace("\\]", "]") }),
    caught: ["every character of one byte comes back", "a mebibyte comes back"],
  },
  {
    fault: "keeps latin text",
    rules: () => ({ keepText: (text) => text.replace(/[\u0100-\uabff]/g, "?") }),
    caught: [
      "every character of two and three bytes comes back",
      "characters of four bytes come back",
      "composed and decomposed characters stay what they were",
    ],
  },
  {
    fault: "keeps three bytes of a character",
    rules: () => ({ keepText: (text) => text.replace(/[\u{10000}-\u{10ffff}]/gu, "\ufffd") }),
    caught: ["characters of four bytes come back"],
  },
  {
    fault: "normalizes short text",
    rules: () => ({ keepText: (text) => (text.length < 10 ? text.normalize("NFC") : text) }),
    caught: ["composed and decomposed characters stay what they were"],
  },
  {
    fault: "keeps nothing for an empty outcome",
    rules: () => ({ answerText: (text) => (text === "" ? (undefined as unknown as string) : text) }),
    caught: ["an empty outcome comes back empty"],
  },
  {
    fault: "reads nothing where an empty outcome is",
    rules: () => ({ readText: (text) => (text === "" ? (undefined as unknown as string) : text) }),
    caught: ["an empty outcome comes back empty"],
  },
  {
    fault: "cuts line ends off the end",
    rules: () => ({ keepText: (text) => text.replace(/[\r\n]+$/, "") }),
    caught: ["white space at both ends comes back"],
  },
  {
    fault: "unquotes what looks like JSON",
    rules: () => ({ keepText: (text) => (/^".*"$/.test(text) ? text.slice(1, -1) : text) }),
    caught: ["text that looks like an encoding comes back as it is"],
  },
  {
    fault: "keeps 256 kibibytes",
    rules: () => ({ keepText: (text) => text.slice(0, 262_143) }),
    caught: ["a mebibyte comes back"],
  },
];
