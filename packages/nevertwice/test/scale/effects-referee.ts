/**
 * Judges what processes that were killed have left: the rows of the ledger, which has no constraint, and the notes in which
 * each process wrote what it asked and what it was told. Nothing here asks the library.
 *
 *   ask ──── work ──── (begun ─ kept) … ──── told
 *
 * A key is an effect that must happen exactly once. Every attempt at its work has a value of its own, so the rows show which
 * attempt was committed.
 */

/** One line of a process's notes. The last entry is the time, in microseconds of the monotonic clock that all processes share. */
export type EffectNote =
  | readonly [kind: "ask", ask: number, key: string, at: number]
  /** The work runs, and will write this value. */
  | readonly [kind: "work", ask: number, value: string, at: number]
  | readonly [kind: "begun" | "kept", ask: number, step: string, value: string, at: number]
  /** `answer` is `done`, or the code of an error. `value` is the value, or the error as text. */
  | readonly [kind: "told", ask: number, answer: string, value: string, at: number];

export interface Row {
  readonly key: string;
  readonly value: string;
}

/** One request of a process, and what became of it. */
export interface Ask {
  readonly key: string;
  readonly worked: string[];
  readonly steps: {
    readonly kind: "begun" | "kept";
    readonly step: string;
    readonly value: string;
    readonly at: number;
  }[];
  told?: { readonly answer: string; readonly value: string };
}

/** Returns the problems. `keys` must all be done: processes that were not killed have repeated them. */
export type Judge = (
  asks: readonly Ask[],
  rows: readonly Row[],
  keys: readonly string[],
) => readonly string[];

/** The answers that mean "try again later". Any other one is a problem. */
const LATER = new Set(["pending", "unavailable", "unknown", "lease-lost"]);

/** `notes` are those of one process, in order. */
export function toAsks(notes: readonly EffectNote[]): readonly Ask[] {
  const asks = new Map<number, Ask>();
  for (const note of notes) {
    const [kind, number] = note;
    if (kind === "ask") asks.set(number, { key: note[2], worked: [], steps: [] });
    const ask = asks.get(number);
    if (ask === undefined) throw new Error(`a process noted ${kind} before it asked`);
    if (kind === "work") ask.worked.push(note[2]);
    else if (kind === "told") ask.told = { answer: note[2], value: note[3] };
    else if (kind !== "ask") ask.steps.push({ kind, step: note[2], value: note[3], at: note[4] });
  }
  return [...asks.values()];
}

export const judgeRows: Judge = (asks, rows, keys) => [
  ...answerProblems(asks),
  ...judgeLedger(asks, rows, keys),
];

/** For trials in which the work itself may fail, so that callers get the errors of its driver. */
export const judgeLedger: Judge = (asks, rows, keys) => {
  const problems: string[] = [];
  const written = new Map<string, string[]>();
  for (const { key, value } of rows) written.set(key, [...(written.get(key) ?? []), value]);
  for (const [key, values] of written)
    if (values.length > 1) problems.push(`duplicate: ${key} was committed ${values.length} times`);
  for (const key of keys) if (!written.has(key)) problems.push(`lost: ${key} was never committed`);
  for (const { key, worked, told } of asks) {
    const values = written.get(key) ?? [];
    if (told?.answer === "done" && values[0] !== told.value)
      problems.push(
        `wrong answer: ${key} was told as done with ${told.value}, and the ledger has ${values.join()}`,
      );
    // Any other answer says that this attempt was rolled back.
    const isOpen = told === undefined || told.answer === "done" || told.answer === "unknown";
    if (!isOpen && worked.some((value) => values.includes(value)))
      problems.push(`wrong answer: ${key} was told as ${told.answer}, and its transaction was committed`);
  }
  return problems;
};

/** The effects of steps are notes. A step is finished once an attempt was told that it is kept. */
export const judgeSteps: Judge = (asks, _rows, keys) => {
  const problems = answerProblems(asks);
  const steps = asks.flatMap(({ key, steps }) =>
    steps.map((each) => ({ ...each, name: `${key}, ${each.step}` })),
  );
  const finished = new Map<string, { readonly value: string; readonly at: number }>();
  for (const { kind, name, value, at } of steps) {
    if (kind !== "kept") continue;
    const known = finished.get(name);
    if (known !== undefined && known.value !== value) problems.push(`changed: step ${name} has two outcomes`);
    if (known === undefined || at < known.at) finished.set(name, { value, at });
  }
  for (const { kind, name, at } of steps)
    if (kind === "begun" && at > (finished.get(name)?.at ?? Number.POSITIVE_INFINITY))
      problems.push(`twice: step ${name} began after it was finished`);
  const begun = new Set(steps.flatMap(({ kind, name }) => (kind === "begun" ? [name] : [])));
  for (const name of finished.keys())
    if (!begun.has(name)) problems.push(`lost: step ${name} is finished and never began`);
  const done = new Map<string, string>();
  for (const { key, told } of asks) {
    if (told?.answer !== "done") continue;
    const known = done.get(key) ?? told.value;
    if (known !== told.value) problems.push(`wrong answer: ${key} was told ${known} and ${told.value}`);
    done.set(key, known);
  }
  for (const key of keys) if (!done.has(key)) problems.push(`lost: ${key} was never done`);
  return problems;
};

/** What a caller may be told, and whether it was told the same each time. */
function answerProblems(asks: readonly Ask[]): string[] {
  return asks.flatMap(({ key, told }) =>
    told === undefined || told.answer === "done" || LATER.has(told.answer)
      ? []
      : [`unexpected answer: ${key} was told ${told.answer} (${told.value})`],
  );
}
