/**
 * The finished steps of a record, as the one text that every store keeps: the token of the claim that the steps belong to,
 * and then a line of JSON for each step.
 *
 *   <token>
 *   ["charge",1763413000000,"[\"1vp\",{\"id\":7}]"]
 *
 * Stores that decide in SQL or Lua build the same text. A claim that continues the work writes its own token in front. A
 * release that does not know steps leaves the old token there, so steps that such a release walked over count as absent: they
 * may belong to an earlier life of the key.
 */
import { damagedRecord } from "./damaged-record.ts";
import type { KeptStep } from "./store.ts";

/** A step without its time. */
export type FinishedStep = Pick<KeptStep, "name" | "outcome">;

/** The part of a record that its steps depend on. */
export interface StepsOwner {
  readonly token: string;
  readonly steps?: string | undefined;
}

/** A line without its time, which the store writes between the two: its own clock decides it. */
export function stepLine({ name, outcome }: FinishedStep): {
  readonly start: string;
  readonly end: string;
} {
  return { start: stepStart(name), end: `,${JSON.stringify(outcome)}]\n` };
}

/** The line break after the token, and the lines; undefined if the record has no steps of its own. */
function linesIn({ token, steps }: StepsOwner): string | undefined {
  return steps?.startsWith(`${token}\n`) ? steps.slice(token.length) : undefined;
}

export function hasSteps(owner: StepsOwner): boolean {
  return linesIn(owner) !== undefined;
}

/** Whether the record has a step of this name. */
export function hasStep(owner: StepsOwner, name: string): boolean {
  return linesIn(owner)?.includes(`\n${stepStart(name)}`) ?? false;
}

/** What the line of a step begins with. */
export function stepStart(name: string): string {
  return `[${JSON.stringify(name)},`;
}

/** The text for the claim of another token that continues the work; undefined if there are no steps. */
export function carriedSteps(owner: StepsOwner, token: string): string | undefined {
  const lines = linesIn(owner);
  return lines === undefined ? undefined : token + lines;
}

/** The text with one more step. Undefined if it has a step with this name already: a finished step never changes. */
export function addedStep(owner: StepsOwner, step: FinishedStep, now: number): string | undefined {
  if (hasStep(owner, step.name)) return undefined;
  const { start, end } = stepLine(step);
  return owner.token + (linesIn(owner) ?? "\n") + start + Math.floor(now) + end;
}

/** The steps in the order in which they were kept. Throws `store-unsafe` if the text is damaged. */
export function stepsIn(id: string, owner: StepsOwner): readonly KeptStep[] {
  const lines = linesIn(owner);
  return lines === undefined ? [] : lines.slice(1, -1).split("\n").map(readLine(id));
}

function readLine(id: string): (line: string) => KeptStep {
  return (line) => {
    const [name, keptAt, outcome] = parsed(line);
    if (typeof name !== "string" || typeof keptAt !== "number" || typeof outcome !== "string")
      throw damagedRecord(id, "steps");
    return { name, keptAt, outcome };
  };
}

function parsed(line: string): readonly unknown[] {
  try {
    const values: unknown = JSON.parse(line);
    return Array.isArray(values) ? values : [];
  } catch {
    return [];
  }
}
