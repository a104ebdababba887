/**
 * The steps of a saga whose effects are notes in a ledger that only grows. Each note says what the record kept when the effect
 * began, so that a referee needs nothing else (`saga-referee.ts`).
 */

/**
 * @typedef {object} SagaNote
 * @property {"run" | "undo"} direction
 * @property {string} step
 * @property {number} attempt
 * @property {"begin" | "end" | "threw"} phase
 * @property {readonly string[]} [kept] with `begin`: the names of the steps in the record
 */

/**
 * @typedef {object} World
 * @property {(note: SagaNote) => void} write adds a note to the ledger, which remains after a kill
 * @property {() => Promise<readonly string[]>} kept the names of the steps in the record of this saga
 * @property {(direction: "run" | "undo", step: string) => boolean} fails whether the effect throws
 * @property {(point: string) => unknown} [reach] called at each point of an effect: `run ship`, `ran ship`, `undo ship`, `undid ship`
 */

/** @param {number} count */
export const sagaNames = (count) => Array.from({ length: count }, (_, index) => `step ${index}`);

/**
 * @param {number} count
 * @param {World} world
 * @returns {import("../../../src/saga/index.ts").SagaStep[]}
 */
export function sagaSteps(count, { write, kept, fails, reach }) {
  /** @param {"run" | "undo"} direction @param {string} step @param {number} attempt */
  async function act(direction, step, attempt) {
    write({ direction, step, attempt, phase: "begin", kept: await kept() });
    await reach?.(`${direction} ${step}`);
    if (fails(direction, step)) {
      write({ direction, step, attempt, phase: "threw" });
      throw new Error(`${direction} of ${step} failed`);
    }
    write({ direction, step, attempt, phase: "end" });
    await reach?.(`${direction === "run" ? "ran" : "undid"} ${step}`);
    return attempt;
  }
  return sagaNames(count).map((name) => ({
    name,
    run: ({ number }) => act("run", name, number),
    undo: ({ number }) => act("undo", name, number),
  }));
}
