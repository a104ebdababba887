/**
 * Counts effects outside of the libraries: each effect is one line of a file, flushed before the work goes on. It has no
 * constraint that could hide a second effect, and it outlives a process that is killed.
 */
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";

export function openLedger(file) {
  const descriptor = openSync(file, "a");
  return {
    record(name) {
      writeSync(descriptor, `${JSON.stringify(name)}\n`);
      fsyncSync(descriptor);
    },
    /** How often the effect happened, in any process. */
    count: (name) => countLines(readFileSync(file, "utf8"), name),
    close: () => closeSync(descriptor),
  };
}

export function countLines(text, name) {
  return text.split("\n").filter((line) => line !== "" && JSON.parse(line) === name).length;
}
