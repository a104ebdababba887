/**
 * Judges what processes that were killed have left: the rows of the ledger, which has no constraint, and the notes in which
 * each process wrote what it asked and what it was told. Nothing here asks the library.
 *
 *   ask ──── work ──── (begun ─ kept) … ──── told
 *
 * A key is an effect that must happen exactly once. Every attempt at its work has a value of its own, so the rows show which
 * attempt was committed.
 */
import { sagaProblems } from "./saga-referee.ts";
import { SAGA_STEPS } from "./workers/effects/saga.js";
import type { SagaNote } from "./workers/saga-steps.js";

/** One line of a process's notes. The last entry is the time, in microseconds of the monotonic clock that all processes share. */
export type EffectNote =
  | readonly [kind: "ask", ask: number, key: string, at: number]
  /** The work runs, and will write this value. */
  | readonly [kind: "work", ask: number, value: string, at: number]
  | readonly [kind: "begun" | "kept", ask: number, step: string, value: string, at: number]
  | readonly [kind: "saga", ask: number, note: SagaNote, at: number]
  /** A relay of the process delivers a message, which any process may have sent. */
  | readonly [kind: "delivered", ask: 0, id: string, order: string, value: string, part: number, at: number]
  /** `answer` is `done`, or the code of an error. `value` is the value, or the error as text. */
  | readonly [kind: "told", ask: number, answer: string, value: string, at: number];

export interface Row {
  readonly key: string;
  readonly value: string;
}

/** One request of a process, and what became of it. */
export interface Ask {
  readonly key: string;
  /** The values of the attempts that this request made, and when each began. */
  readonly worked: string[];
  readonly workedAt: number[];
  readonly steps: StepEvent[];
  readonly sagas: { readonly note: SagaNote; readonly at: number }[];
  told?: { readonly answer: string; readonly value: string; readonly at: number };
}

interface StepEvent {
  readonly kind: "begun" | "kept";
  readonly step: string;
  readonly value: string;
  readonly at: number;
}

/** One delivery of a message. `order` is the key within which messages are delivered in order. */
export interface Delivery {
  readonly id: string;
  readonly order: string;
  readonly value: string;
  readonly part: number;
  readonly at: number;
}

/** What a trial has left. `keys` must all be done: processes that were not killed have repeated them. */
export interface Remains {
  readonly asks: readonly Ask[];
  readonly rows: readonly Row[];
  readonly keys: readonly string[];
  readonly deliveries: readonly Delivery[];
}

/** Returns the problems. */
export type Judge = (remains: Remains) => readonly string[];

/** The answers that mean "try again later". Any other one is a problem. */
const LATER = new Set(["pending", "unavailable", "unknown", "lease-lost"]);

/** `notes` are those of one process, in order. */
export function readNotes(notes: readonly EffectNote[]): Pick<Remains, "asks" | "deliveries"> {
  const asks = new Map<number, Ask>();
  const deliveries: Delivery[] = [];
  for (const note of notes) {
    const [kind, number] = note;
    if (kind === "delivered") {
      const [, , id, order, value, part, at] = note;
      deliveries.push({ id, order, value, part, at });
      continue;
    }
    if (kind === "ask") asks.set(number, { key: note[2], worked: [], workedAt: [], steps: [], sagas: [] });
    const ask = asks.get(number);
    if (ask === undefined) throw new Error(`a process noted ${kind} before it asked`);
    if (kind === "work") {
      ask.worked.push(note[2]);
      ask.workedAt.push(note[3]);
    } else if (kind === "told") ask.told = { answer: note[2], value: note[3], at: note[4] };
    else if (kind === "saga") ask.sagas.push({ note: note[2], at: note[3] });
    else if (kind !== "ask") ask.steps.push({ kind, step: note[2], value: note[3], at: note[4] });
  }
  return { asks: [...asks.values()], deliveries };
}

export const judgeRows: Judge = (remains) => [...answerProblems(remains.asks), ...judgeLedger(remains)];

/** For trials in which the work itself may fail, so that callers get the errors of its driver. */
export const judgeLedger: Judge = (remains) => [...judgeKeptRows(remains), ...refusalProblems(remains)];

/** For rows that are committed before the key is done: they stay, whatever the attempt was told. */
export const judgeStepRows: Judge = (remains) => [...answerProblems(remains.asks), ...judgeKeptRows(remains)];

function judgeKeptRows({ asks, rows, keys }: Remains): string[] {
  const problems: string[] = [];
  const written = valuesByKey(rows);
  for (const [key, values] of written)
    if (values.length > 1) problems.push(`duplicate: ${key} was committed ${values.length} times`);
  for (const key of keys) if (!written.has(key)) problems.push(`lost: ${key} was never committed`);
  for (const { key, told } of asks) {
    const values = written.get(key) ?? [];
    if (told?.answer === "done" && values[0] !== told.value)
      problems.push(
        `wrong answer: ${key} was told as done with ${told.value}, and the ledger has ${values.join()}`,
      );
  }
  return problems;
}

/** An answer other than `done` and `unknown` says that this attempt was rolled back. */
function refusalProblems({ asks, rows }: Remains): string[] {
  const written = valuesByKey(rows);
  return asks.flatMap(({ key, worked, told }) => {
    if (told === undefined || told.answer === "done" || told.answer === "unknown") return [];
    if (!worked.some((value) => written.get(key)?.includes(value))) return [];
    return [`wrong answer: ${key} was told as ${told.answer}, and its transaction was committed`];
  });
}

function valuesByKey(rows: readonly Row[]): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>();
  for (const { key, value } of rows) {
    const list = values.get(key);
    if (list === undefined) values.set(key, [value]);
    else list.push(value);
  }
  return values;
}

/** The effects of steps are notes. A step is finished once an attempt was told that it is kept. */
export const judgeSteps: Judge = ({ asks, keys }) => {
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

/** Each saga by its own referee, from the notes of all processes that ran it. Every caller must be told the same end. */
export const judgeSagas: Judge = ({ asks, keys }) => {
  const problems = answerProblems(asks);
  const sagas = new Map(keys.map((key) => [key, { notes: [] as Ask["sagas"], ends: new Set<string>() }]));
  for (const { key, sagas: notes, told } of asks) {
    const saga = sagas.get(key);
    saga?.notes.push(...notes);
    if (told?.answer === "done") saga?.ends.add(told.value);
  }
  for (const [key, { notes, ends }] of sagas) {
    const [end = "never", ...others] = ends;
    if (others.length > 0) problems.push(`wrong answer: ${key} was told ${[...ends].join(" and ")}`);
    const inOrder = notes.toSorted((a, b) => a.at - b.at).map(({ note }) => note);
    problems.push(...sagaProblems(inOrder, SAGA_STEPS, end).map((problem) => `${key}: ${problem}`));
  }
  return problems;
};

/** Every message of a committed transaction is delivered, with one id, and in order. The rows say what was committed. */
export const judgeOutbox: Judge = (remains) => {
  const { asks, rows, deliveries } = remains;
  const problems = [...judgeRows(remains)];
  const messages = new Map<string, { ids: Set<string>; first: number; last: number }>();
  const orders = new Map<string, string>();
  for (const { id, order, value, part, at } of deliveries) {
    orders.set(value, order);
    const name = `${value} ${part}`;
    const message = messages.get(name) ?? { ids: new Set(), first: at, last: at };
    message.ids.add(id);
    message.first = Math.min(message.first, at);
    message.last = Math.max(message.last, at);
    messages.set(name, message);
  }
  const committed = new Set(rows.map(({ value }) => value));
  for (const [name, { ids }] of messages) {
    if (ids.size > 1) problems.push(`changed: message ${name} was delivered with ${ids.size} ids`);
    if (!committed.has(name.split(" ")[0] as string))
      problems.push(`wrong: message ${name} was delivered, and its transaction was rolled back`);
  }
  const begun = new Map(
    asks.flatMap(({ worked, workedAt }) =>
      worked.map((value, index) => [value, workedAt[index] as number] as const),
    ),
  );
  const done = new Map(
    asks.flatMap(({ told }) => (told?.answer === "done" ? [[told.value, told.at] as const] : [])),
  );
  const sent = new Map<string, Sent[]>();
  for (const { value } of rows) {
    const [zero, one] = [messages.get(`${value} 0`), messages.get(`${value} 1`)];
    if (zero === undefined || one === undefined) {
      problems.push(`lost: a message of ${value} was not delivered`);
      continue;
    }
    if (zero.last > one.first)
      problems.push(`order: the messages of ${value} were delivered in the wrong order`);
    const order = orders.get(value) as string;
    const list = sent.get(order) ?? [];
    list.push({
      begunAt: begun.get(value) ?? 0,
      committedAt: done.get(value) ?? Number.POSITIVE_INFINITY,
      first: zero.first,
      last: one.last,
    });
    sent.set(order, list);
  }
  for (const [order, list] of sent) problems.push(...orderProblems(order, list));
  return problems;
};

/** The messages of one transaction: it began at the earliest, and was committed at the latest, at these times. */
interface Sent {
  readonly begunAt: number;
  readonly committedAt: number;
  readonly first: number;
  readonly last: number;
}

/** A transaction that began after another one was committed sends its messages after it. */
function orderProblems(order: string, sent: readonly Sent[]): string[] {
  const byBegin = sent.toSorted((a, b) => a.begunAt - b.begunAt);
  const byCommit = sent.toSorted((a, b) => a.committedAt - b.committedAt);
  const problems: string[] = [];
  let [passed, last] = [0, 0];
  for (const { begunAt, first } of byBegin) {
    for (
      let next = byCommit[passed];
      next !== undefined && next.committedAt < begunAt;
      next = byCommit[++passed]
    )
      last = Math.max(last, next.last);
    if (last > first) problems.push(`order: a message of ${order} was delivered before an earlier one`);
  }
  return problems;
}
