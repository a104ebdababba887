/** Reads the notes of all processes of a round, and makes the history of each key of them. */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { KeyOperation } from "./history.ts";
import type { HistoryNote } from "./recorded-store.ts";

/** The file of one process in one round. */
export function notesFile(folder: string, round: number, process: string): string {
  return join(folder, `${round}-${process}.jsonl`);
}

/** The histories of a round by key. Its files are removed. */
export async function takeHistories(
  folder: string,
  round: number,
): Promise<ReadonlyMap<string, readonly KeyOperation[]>> {
  const histories = new Map<string, KeyOperation[]>();
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${round}-`)) continue;
    const path = join(folder, name);
    addNotes(histories, name.slice(`${round}-`.length, -".jsonl".length), await readFile(path, "utf8"));
    await rm(path);
  }
  return histories;
}

function addNotes(histories: Map<string, KeyOperation[]>, by: string, text: string): void {
  // The last line of a killed process may be incomplete: what it was about to send or to use, it did not.
  const notes = text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as HistoryNote);
  const told = new Map<number, HistoryNote & { 0: "told" }>();
  for (const note of notes) if (note[0] === "told") told.set(note[1], note);
  for (const note of notes) {
    if (note[0] !== "sent") continue;
    const [, number, key, sentAt, call] = note;
    const answered = told.get(number);
    const operation: KeyOperation = {
      by,
      call,
      sentAt,
      answeredAt: answered?.[2] ?? Number.POSITIVE_INFINITY,
      answer: answered?.[3],
    };
    const history = histories.get(key);
    if (history === undefined) histories.set(key, [operation]);
    else history.push(operation);
  }
}
