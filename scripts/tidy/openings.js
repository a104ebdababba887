/** Every source file opens with a comment that says what it is for. */
import { sourcesOf } from "./source.js";

const OPENING = /^(\/\*\*([\s\S]*?)\*\/|((\/\/.*\n)+))/;

/** @param {readonly import("./source.js").File[]} files */
export function openingProblems(files) {
  return sourcesOf(files).flatMap(({ path, text }) => {
    const opening = OPENING.exec(text)?.[0] ?? "";
    const words = opening.match(/[A-Za-z]{2,}/g) ?? [];
    return words.length >= 3 ? [] : [`${path}:1: opens without a sentence that says what the file is for`];
  });
}
