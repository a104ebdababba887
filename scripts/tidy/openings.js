/** Checks that every source file opens with a comment that says what it is for. */
import { allSourcesOf } from "./source.js";

const OPENING = /^(?:#!.*\n)?(\/\*\*([\s\S]*?)\*\/|((\/\/.*\n)+))/;

/** @param {readonly import("./source.js").File[]} files */
export function openingProblems(files) {
  return allSourcesOf(files).flatMap(({ path, text }) => {
    const opening = OPENING.exec(text)?.[0] ?? "";
    const words = opening.match(/[A-Za-z]{2,}/g) ?? [];
    return words.length >= 3
      ? []
      : [`${path}:1: does not open with a sentence that says what the file is for`];
  });
}
