/** Checks a trial of reservations: compares the answers that its processes got with the stored answers of the keys and with the journal. */
import { readFile } from "node:fs/promises";
import type { Answer, JournalEvent } from "../../src/reservations/index.ts";

/** The answer that a process got for a key. */
export interface Note {
  readonly key: string;
  readonly answer: Answer;
}

export async function notesIn(path: string): Promise<Note[]> {
  const lines = (await readFile(path, "utf8")).split("\n").slice(0, -1);
  const keys = new Map<number, string>();
  return lines.flatMap((line) => {
    const [kind, number, what] = JSON.parse(line);
    if (kind === "ask") keys.set(number, what.key);
    return kind === "told" ? [{ key: keys.get(number) as string, answer: what as Answer }] : [];
  });
}

/** Returns the answers that differ from the records. A failure of the store is not an answer, and is not recorded. */
export function lostOf(
  notes: readonly Note[],
  records: readonly { readonly key: string; readonly answer: Answer }[],
): string[] {
  const kept = new Map(records.map(({ key, answer }) => [key, JSON.stringify(answer)]));
  return notes
    .filter(({ answer }) => answer.ok || !/-failure$/.test(answer.reason))
    .filter(({ key, answer }) => !sameJson(kept.get(key), answer))
    .map(
      ({ key, answer }) =>
        `${key}: a process got ${JSON.stringify(answer)}, but the records have ${kept.get(key)}`,
    );
}

function sameJson(text: string | undefined, answer: Answer): boolean {
  return (
    text !== undefined &&
    JSON.stringify(Object.entries(JSON.parse(text)).sort()) === JSON.stringify(Object.entries(answer).sort())
  );
}

/** Replays the journal, one millisecond at a time, and reports where more or fewer units were taken than possible. */
export function oversoldIn(
  events: readonly JournalEvent[],
  resources: readonly string[],
  capacity: number,
): string[] {
  const ofCommitment = new Map<string, string>();
  const occupied = new Map<string, number>();
  const taken = new Map(resources.map((name) => [name, 0]));
  const told: string[] = [];
  const inOrder = events
    .filter(({ subject }) => subject.startsWith("commitment:"))
    .sort((a, b) => a.at - b.at || a.number - b.number);
  for (const [index, { subject, kind, at, detail }] of inOrder.entries()) {
    const what = JSON.parse(detail) as { resource?: string; units: number };
    if (what.resource !== undefined) ofCommitment.set(subject, what.resource);
    const resource = ofCommitment.get(subject) as string;
    const before = occupied.get(subject) ?? 0;
    const after = kind === "given-back" ? before - what.units : what.units;
    occupied.set(subject, after);
    taken.set(resource, (taken.get(resource) ?? 0) + after - before);
    if (after < 0) told.push(`${subject} gave back more than it had at ${at}`);
    if (inOrder[index + 1]?.at === at) continue;
    for (const [name, units] of taken)
      if (units < 0 || units > capacity) told.push(`${units} of ${name} at ${at}`);
  }
  return told;
}
