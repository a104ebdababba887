/** What the store has kept of one saga, and what that allows: the referee's own reading of the log. */

/** @typedef {{ readonly name: string, readonly hasUndo: boolean }} PlannedStep */
/** @typedef {ReturnType<typeof createSagaLog>} SagaLog */

export const SECOND_DECISION = "a second decision";
const FROM = "saga: undo from ";
const BEFORE = "saga: undo before ";
const UNDID = "saga: undid ";
const PARKED = /^saga: parked \d+: /;

/** @param {readonly PlannedStep[]} steps */
export function createSagaLog(steps) {
  /** @type {string[]} */
  const names = [];
  /** @type {Map<string, string>} */
  const kept = new Map();
  /** @type {Set<string>} */
  const undone = new Set();
  /** @type {{ readonly step: string, readonly mayHaveHappened: boolean } | undefined} */
  let decision;

  /** The steps that are to be undone, the last one first. */
  function toUndo() {
    if (decision === undefined) return [];
    const { step, mayHaveHappened } = decision;
    const started = steps.filter(({ name }) => kept.has(name) || (mayHaveHappened && name === step));
    return started
      .filter(({ hasUndo }) => hasUndo)
      .map(({ name }) => name)
      .reverse();
  }

  const nextUndo = () => toUndo().find((name) => !undone.has(name));

  return {
    kept,
    undone,
    decision: () => decision,
    nextUndo,
    /** Why this step must not run now; undefined if it may. @param {string} name */
    whyNotRun(name) {
      if (decision !== undefined) return `the saga is undone since ${decision.step}`;
      if (kept.has(name)) return "it is done";
      const next = steps.find((step) => !kept.has(step.name));
      return next?.name === name ? undefined : `${next?.name} comes first`;
    },
    /** Why this step must not be undone now. @param {string} name */
    whyNotUndone(name) {
      if (decision === undefined) return "nothing is decided";
      const next = nextUndo();
      return next === name ? undefined : `${next ?? "nothing"} is next`;
    },
    /** Adds an entry that the store has kept, and says why it must not be there. @param {string} name @param {string} outcome */
    add(name, outcome) {
      if (names.includes(name)) return undefined;
      names.push(name);
      if (name.startsWith(FROM) || name.startsWith(BEFORE)) {
        if (decision !== undefined) return SECOND_DECISION;
        const mayHaveHappened = name.startsWith(FROM);
        decision = { step: name.slice((mayHaveHappened ? FROM : BEFORE).length), mayHaveHappened };
        return undefined;
      }
      if (PARKED.test(name)) return decision === undefined ? "parked without a decision" : undefined;
      if (name.startsWith(UNDID)) {
        const step = name.slice(UNDID.length);
        const why = this.whyNotUndone(step);
        undone.add(step);
        return why;
      }
      const why = this.whyNotRun(name);
      kept.set(name, outcome);
      return why;
    },
  };
}
