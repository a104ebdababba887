/** The ledger of a service: a file with a line for every arrival and every effect, which no part of nevertwice writes. */
import { readFileSync, writeFileSync } from "node:fs";

export type LedgerEvent = "arrived" | "effect" | "waits";

export interface Ledger {
  readonly file: string;
  count(event: LedgerEvent, work: string): number;
  /** The ids of the effects of this work. */
  effects(work: string): readonly string[];
}

const FRESH_MS = 20;

export function createLedger(file: string): Ledger {
  writeFileSync(file, "");
  let readAt = Number.NEGATIVE_INFINITY;
  let known: readonly string[] = [];
  // Many trials wait for their lines at the same time.
  const lines = () => {
    if (performance.now() - readAt > FRESH_MS) {
      known = readFileSync(file, "utf8").split("\n");
      readAt = performance.now();
    }
    return known;
  };
  const count = (event: LedgerEvent, work: string) =>
    lines().filter((line) => `${line} `.startsWith(`${event} ${work} `)).length;
  return {
    file,
    count,
    effects: (work) =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.startsWith(`effect ${work} `))
        .map((line) => line.split(" ")[2] ?? ""),
  };
}
