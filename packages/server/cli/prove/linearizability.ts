/**
 * Checks that the history of one key is linearizable: that every call can be given one moment between its request and its
 * answer, so that a record which takes the calls one by one gives the same answers. Keys do not depend on each other, so a
 * history is right if that of each key is.
 *
 * The search is that of Wing and Gong, with Lowe's memory of what was tried: take any call that no unfinished call has to
 * precede, apply it to the model, go on; go back where no call fits. A call without an answer may be taken at any later moment,
 * or never. The search visits each pair of taken calls and record once, and gives up after a number of them.
 */
import type { ClaimAnswer } from "nevertwice";
import { describeOperation, type KeyOperation } from "./history.ts";
import { type ModelStep, modelSteps } from "./key-model.ts";
import { ABSENT, type ClockBounds, describeState, type KeyState, stateText } from "./key-state.ts";

export interface KeyCheckOptions {
  readonly bounds: ClockBounds;
  /** How many pairs of taken calls and record the search visits at most; default one million. */
  readonly mostVisits?: number;
}

export interface HistoryVerdict {
  /** `undecided`: the search was given up. */
  readonly result: "linearizable" | "violation" | "undecided";
  readonly operations: number;
  /** What the calls did, each once: `lapsed claim taken over`. Only of a history that is linearizable. */
  readonly covered: readonly string[];
  /** Why there is no such order: the calls around the place that no order gets past. */
  readonly explanation: readonly string[];
}

const MOST_VISITS = 1_000_000;
/** How many calls before the place a report has. */
const SHOWN_BEFORE = 12;

export function checkKeyHistory(history: readonly KeyOperation[], options: KeyCheckOptions): HistoryVerdict {
  const { bounds, mostVisits = MOST_VISITS } = options;
  const search = createSearch(history, bounds);
  for (let visits = 0; visits < mostVisits; visits++) {
    if (search.isDone()) return { ...search.verdict("linearizable"), covered: search.covered() };
    if (!search.goOn()) return { ...search.verdict("violation"), explanation: search.explain() };
  }
  return search.verdict("undecided");
}

/** One call that was taken, and what else could have been taken instead of it. */
interface Taken {
  readonly index: number;
  readonly what: string;
  /** The record before the call, and the place of the first answered call that was not taken yet. */
  readonly before: KeyState;
  readonly baseBefore: number;
  readonly alternatives: Choice[];
}

interface Choice {
  readonly index: number;
  readonly step: ModelStep;
}

function createSearch(history: readonly KeyOperation[], bounds: ClockBounds) {
  const ops = history.filter(isOfUse).sort((a, b) => a.sentAt - b.sentAt);
  const answered = indexesWhere(ops, ({ answer }) => answer !== undefined);
  const unanswered = indexesWhere(ops, ({ answer }) => answer === undefined);
  const anonymous = anonymousClaims(ops);
  const isTaken = new Uint8Array(ops.length);
  const visits = createVisits();
  const claimsLeft = claimsByToken(ops);
  const path: Taken[] = [];
  let state = ABSENT;
  /** The first of `answered` that was not taken. */
  let base = 0;
  /** The unanswered calls that were taken. */
  const silentTaken = new Set<number>();
  let deepest = { taken: [] as readonly number[], state };
  let choices = choicesNow();

  function at(index: number): KeyOperation {
    return ops[index] as KeyOperation;
  }

  /** The calls that no unfinished call has to precede: the answered ones, the most urgent last, after those without an answer. */
  function candidates(): readonly number[] {
    let firstAnswerAt = Number.POSITIVE_INFINITY;
    const open: number[] = [];
    for (let i = base; i < answered.length; i++) {
      const index = answered[i] as number;
      if (at(index).sentAt > firstAnswerAt) break;
      if (isTaken[index]) continue;
      open.push(index);
      firstAnswerAt = Math.min(firstAnswerAt, at(index).answeredAt);
    }
    const ready = open.filter((index) => at(index).sentAt <= firstAnswerAt);
    ready.sort((a, b) => at(b).answeredAt - at(a).answeredAt);
    const seen = new Set<string>();
    const silent = unanswered.filter((index) => {
      if (isTaken[index] || at(index).sentAt > firstAnswerAt) return false;
      // Claims that no answer ever mentions differ in nothing: the one that was sent first stands for all.
      const alike = anonymous.get(index);
      if (alike === undefined) return true;
      if (seen.has(alike)) return false;
      seen.add(alike);
      return true;
    });
    return [...silent.reverse(), ...ready];
  }

  /** The last one is tried first. */
  function choicesNow(): Choice[] {
    const choices: Choice[] = [];
    for (const index of candidates()) {
      const steps = modelSteps(state, at(index), bounds);
      // A call that only observed, and fits now, can be taken now: no other call notices it.
      const observed = isObservation(at(index)) && steps.find(({ next }) => next === state);
      if (observed) return [{ index, step: observed }];
      for (const step of steps.reverse()) choices.push({ index, step });
    }
    return choices;
  }

  function take({ index, step }: Choice, alternatives: Choice[]): void {
    path.push({ index, what: step.what, before: state, baseBefore: base, alternatives });
    isTaken[index] = 1;
    count(index, -1);
    state = step.next;
    while (base < answered.length && isTaken[answered[base] as number]) base++;
  }

  function giveBack({ index, before, baseBefore }: Taken): void {
    isTaken[index] = 0;
    count(index, 1);
    state = before;
    base = baseBefore;
  }

  function count(index: number, by: 1 | -1): void {
    const { call, answer } = at(index);
    if (call.kind === "claim") claimsLeft.set(call.token, (claimsLeft.get(call.token) ?? 0) + by);
    if (answer !== undefined) return;
    if (by === -1) silentTaken.add(index);
    else silentTaken.delete(index);
  }

  /** The answered calls that were taken, and the record, as text. */
  function placeText(): string {
    const first = answered[base];
    const beyond: number[] = [];
    for (let i = base + 1; first !== undefined && i < answered.length; i++) {
      const index = answered[i] as number;
      if (isTaken[index]) beyond.push(index);
      else if (at(index).sentAt > at(first).answeredAt) break;
    }
    return `${base}|${beyond.join()}|${stateText(state)}`;
  }

  /** Whether an unanswered call could still change the record if it was not taken yet. */
  function isAlive(index: number): boolean {
    const { call } = at(index);
    if (call.kind === "forget") return bounds.goesBack === true || (state.fence ?? state.above) <= call.fence;
    if (call.kind === "claim" || call.kind === "read") return true;
    return call.token === state.token || (claimsLeft.get(call.token) ?? 0) > 0;
  }

  /** Takes one more call, or goes back to the last place with a choice left. False if there is none. */
  function goOn(): boolean {
    for (;;) {
      const choice = choices.pop();
      if (choice !== undefined) {
        take(choice, choices);
        if (visits.isKnown(placeText(), [...silentTaken].filter(isAlive))) choices = [];
        else {
          if (path.length > deepest.taken.length) deepest = { taken: path.map(({ index }) => index), state };
          choices = choicesNow();
          return true;
        }
      }
      if (choices.length > 0) continue;
      const last = path.pop();
      if (last === undefined) return false;
      giveBack(last);
      choices = last.alternatives;
    }
  }

  const verdict = (result: HistoryVerdict["result"]): HistoryVerdict => ({
    result,
    operations: history.length,
    covered: [],
    explanation: [],
  });

  return {
    isDone: () => base === answered.length,
    goOn,
    verdict,
    covered: () => [...new Set(path.map(({ what }) => what))],
    explain: () => explain(ops, deepest),
  };
}

/**
 * The places that were visited: answered calls that were taken, and the record. From a place where more unanswered calls were
 * left no way led on, so none does where fewer are left.
 */
function createVisits() {
  const visited = new Map<string, (readonly number[])[]>();
  return {
    /** Whether the place was visited with these unanswered calls taken, or with fewer. If not, it is now. */
    isKnown(place: string, silent: readonly number[]): boolean {
      const known = visited.get(place);
      if (known === undefined) {
        visited.set(place, [silent]);
        return false;
      }
      const taken = new Set(silent);
      if (known.some((each) => each.every((index) => taken.has(index)))) return true;
      known.push(silent);
      return false;
    },
  };
}

function claimsByToken(ops: readonly KeyOperation[]): Map<string, number> {
  const claims = new Map<string, number>();
  for (const { call } of ops)
    if (call.kind === "claim") claims.set(call.token, (claims.get(call.token) ?? 0) + 1);
  return claims;
}

const OBSERVING = new Set(["pending", "completed", "conflict", "unknown"]);

/** Whether the answer says that the call changed nothing, whatever it found. */
function isObservation({ call, answer }: KeyOperation): boolean {
  if (answer === undefined) return false;
  if (call.kind === "claim") return OBSERVING.has((answer as ClaimAnswer).status);
  return call.kind === "read" || answer === false;
}

/** A read without an answer changes nothing and says nothing. */
function isOfUse({ call, answer }: KeyOperation): boolean {
  return answer !== undefined || call.kind !== "read";
}

function indexesWhere(
  ops: readonly KeyOperation[],
  isMeant: (operation: KeyOperation) => boolean,
): readonly number[] {
  return ops.flatMap((operation, index) => (isMeant(operation) ? [index] : []));
}

/** The unanswered claims whose token nothing else mentions, each with a text that is the same for claims that are alike. */
function anonymousClaims(ops: readonly KeyOperation[]): ReadonlyMap<number, string> {
  const mentions = new Map<string, number>();
  const mention = (token: string) => void mentions.set(token, (mentions.get(token) ?? 0) + 1);
  for (const { call, answer } of ops) {
    if ("token" in call) mention(call.token);
    if (typeof answer === "object" && answer !== null && "token" in answer) mention(answer.token);
  }
  const alike = new Map<number, string>();
  for (const [index, { call, answer }] of ops.entries()) {
    if (answer !== undefined || call.kind !== "claim" || mentions.get(call.token) !== 1) continue;
    const { token: _, ...terms } = call;
    alike.set(index, JSON.stringify(terms));
  }
  return alike;
}

function explain(
  ops: readonly KeyOperation[],
  { taken, state }: { readonly taken: readonly number[]; readonly state: KeyState },
): readonly string[] {
  const from = ops[0]?.sentAt ?? 0;
  const isTaken = new Set(taken);
  const left = ops.filter((_, index) => !isTaken.has(index));
  const firstAnswerAt = Math.min(...left.map(({ answeredAt }) => answeredAt));
  const next = left.filter(({ sentAt, answer }) => answer !== undefined && sentAt <= firstAnswerAt);
  const line = (operation: KeyOperation) => `  ${describeOperation(operation, from)}`;
  return [
    `No order of the ${ops.length} calls explains their answers. The longest that does has ${taken.length} calls and ends with:`,
    ...taken.slice(-SHOWN_BEFORE).map((index) => line(ops[index] as KeyOperation)),
    `The record is then ${describeState(state)}, and none of these answers is possible:`,
    ...next.map(line),
  ];
}
