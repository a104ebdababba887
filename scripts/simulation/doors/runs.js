/** The runs of users' code, judged by the ledger: no run of a key follows one that was done, unless a fault excuses it. */
import { subjectOf } from "./ledger.js";

/** @typedef {import("./stage.js").Stage} Stage */
/** @typedef {import("./ledger.js").LedgerAttempt} LedgerAttempt */

/** How a run says that its key is to be settled. Undefined while it runs. @typedef {"keep" | "release" | "unknown" | undefined} Disposition */

/**
 * @typedef {object} Run
 * @property {string} id stands in everything that the run returns or throws
 * @property {string} subject
 * @property {number} fence
 * @property {string} process
 * @property {Disposition} disposition
 * @property {any} detail of the door
 */

/** @typedef {ReturnType<typeof createRuns>} Runs */

/**
 * @param {Stage} stage
 * @param {(run: Run) => string} nameOf what stands in the kept outcome of a run
 */
export function createRuns({ ledger, fail, tell, count }, nameOf = ({ id }) => id) {
  /** @type {Map<string, Run>} */
  const byId = new Map();
  /** @type {Map<string, Run[]>} */
  const bySubject = new Map();
  /** @type {Set<string>} */
  const decided = new Set();

  /** @param {Run} earlier @param {Run} run */
  function judgeEarlier(earlier, run) {
    if (earlier.fence === run.fence) fail("one-run", `two runs have the fence of ${run.id}`);
    const attempt = ledger.find(earlier.subject, earlier.fence);
    if (attempt === undefined) return fail("one-run", `${earlier.id} ran without a claim`);
    if (attempt.end?.kind === "completed" && ledger.isKept(attempt))
      fail("one-run", `${run.id} ran although ${earlier.id} is completed and kept`);
  }

  /** What was written must be what the run said. @param {LedgerAttempt} attempt */
  function ended(attempt) {
    const { end, subject, fence } = attempt;
    const run = (bySubject.get(subject) ?? []).find((each) => each.fence === fence);
    tell(() => `store: ${subject} ${run?.id ?? "no run"} is ${end?.kind}`);
    if (run === undefined) {
      if (decided.has(subject) || attempt.isLate) return;
      if (end?.kind === "released" || end?.kind === "completed")
        fail("as-said", `${subject} is ${end.kind}, and nothing ran`);
      return;
    }
    count(`ended ${end?.kind}`);
    const { disposition } = run;
    switch (end?.kind) {
      case "completed":
        if (disposition !== "keep") fail("as-said", `${run.id} is completed, and it said ${disposition}`);
        else if (!end.outcome.includes(nameOf(run)))
          fail("as-said", `the outcome of ${run.id} is another one`);
        return;
      case "released":
        if (disposition !== "release") fail("as-said", `${run.id} is released, and it said ${disposition}`);
        return;
      case "unrun":
        fail("as-said", `${run.id} is given back as if it had not run`);
    }
  }

  return {
    ended,
    /** An operator decides about the subject, so it may be settled without a run. @param {string} subject */
    decide: (subject) => void decided.add(subject),
    /** @param {string} id */
    get: (id) => byId.get(id),
    /** @param {string} subject */
    all: (subject) => bySubject.get(subject) ?? [],
    /** The completion of the run's attempt, if the store has it. @param {Run} run */
    completed(run) {
      const attempt = ledger.find(run.subject, run.fence);
      return attempt?.end?.kind === "completed" ? attempt : undefined;
    },
    /**
     * @param {{ readonly scope: string, readonly operation: string, readonly key: string, readonly fence: number, readonly process: string, readonly detail: any }} of
     * @returns {Run}
     */
    begin({ fence, process, detail, ...parts }) {
      const subject = subjectOf(parts);
      const id = `run-${byId.size};`;
      const run = { id, subject, fence, process, disposition: undefined, detail };
      tell(() => `${id} of ${subject} starts in ${process}`);
      count("run");
      const earlier = bySubject.get(subject) ?? [];
      if (earlier.length > 0) count("run after another one");
      for (const each of earlier) judgeEarlier(each, run);
      bySubject.set(subject, [...earlier, run]);
      byId.set(id, run);
      return run;
    },
    /** @param {Run} run @param {Exclude<Disposition, undefined>} disposition */
    end(run, disposition) {
      tell(() => `${run.id} ends: ${disposition}`);
      run.disposition = disposition;
    },
  };
}
