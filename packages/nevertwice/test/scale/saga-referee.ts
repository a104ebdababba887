/** Judges a saga by the notes of its effects alone, whatever was killed in between. */
import { type SagaNote, sagaNames } from "./workers/saga-steps.js";

/**
 * What went wrong: an effect out of order, one that began although it was finished, a decision that came late or flipped, or
 * an end that the effects do not show. `end` is the answer of the last attempt.
 */
export function sagaProblems(notes: readonly SagaNote[], count: number, end: string): readonly string[] {
  const names = sagaNames(count);
  const problems: string[] = [];
  const begins = notes.filter(({ phase }) => phase === "begin");
  const runs = begins.filter(({ direction }) => direction === "run");
  const undos = begins.filter(({ direction }) => direction === "undo");
  const has = (step: string, direction: string, phase: string) =>
    notes.some((note) => note.step === step && note.direction === direction && note.phase === phase);

  for (const { direction, step, kept = [] } of begins) {
    const isDecided = kept.some((name) => name.startsWith("saga: undo "));
    if (kept.includes(direction === "run" ? step : `saga: undid ${step}`))
      problems.push(`the ${direction} of ${step} began although it was finished`);
    if (direction === "undo" && !isDecided) problems.push(`${step} was undone before the decision was kept`);
    if (direction === "run" && isDecided) problems.push(`${step} began after the decision to undo`);
  }
  const firstUndo = notes.findIndex(({ direction }) => direction === "undo");
  if (firstUndo !== -1 && notes.slice(firstUndo).some(({ direction }) => direction === "run"))
    problems.push("a step began after an undo");
  problems.push(...orderProblems(runs, names));
  const begun = names.filter((name) => has(name, "run", "begin"));
  problems.push(...orderProblems(undos, begun.toReversed()));

  const undone = begun.filter((name) => has(name, "undo", "end"));
  const isDone = names.every((name) => has(name, "run", "end"));
  if (end === "done" && !(isDone && undos.length === 0))
    problems.push("done, but not every step was only run");
  if (end === "undone" && undone.length < begun.length)
    problems.push(`undone, but only ${undone.length} of ${begun.length} steps that began`);
  const last = Math.max(...notes.map(({ attempt }) => attempt));
  if (end === "parked" && notes.findLast(({ attempt }) => attempt === last)?.phase !== "threw")
    problems.push("parked, but the last undo did not fail");
  if (end !== "done" && !notes.some(({ direction, phase }) => direction === "run" && phase === "threw"))
    problems.push(`${end}, although no step failed`);
  if (!["done", "undone", "parked"].includes(end)) problems.push(`the saga ended ${end}`);
  return problems;
}

/** Each effect is the next in this order, or the last one again by a later attempt. */
function orderProblems(begins: readonly SagaNote[], order: readonly string[]): readonly string[] {
  const problems: string[] = [];
  let [position, by] = [-1, 0];
  for (const { direction, step, attempt } of begins) {
    const isRepeat = step === order[position] && attempt > by;
    if (!isRepeat && step !== order[position + 1])
      problems.push(
        `attempt ${attempt} began the ${direction} of ${step} after ${order[position] ?? "nothing"}`,
      );
    position = order.indexOf(step);
    by = attempt;
  }
  return problems;
}
