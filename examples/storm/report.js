/** What the storm prints: acts, what happened in them, the promises kept or broken, and the verdict. */

export function createReport() {
  const startedAt = performance.now();
  let acts = 0;
  let kept = 0;
  let broken = 0;

  /** @param {string} line */
  function say(line) {
    console.log(line);
  }

  return {
    say,

    /** @param {string} title */
    act(title) {
      say(`\n${++acts}. ${title}`);
    },

    /** @param {string} text */
    tell(text) {
      say(`   ${text}`);
    },

    /**
     * @param {string} text
     * @param {boolean} isKept
     */
    promise(text, isKept) {
      if (isKept) kept++;
      else broken++;
      say(`   ${isKept ? "ok    " : "BROKEN"}  ${text}`);
    },

    /** @returns {number} the exit code */
    verdict() {
      const all = kept + broken;
      const text = broken === 0 ? `All ${all} promises kept` : `${broken} of ${all} promises BROKEN`;
      say(`\n${text}, in ${elapsed(startedAt)}.`);
      return broken === 0 ? 0 : 1;
    },
  };
}

/**
 * "1 ran, 399 replayed"
 *
 * @param {readonly { status: string }[]} results
 */
export function countStatuses(results) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { status } of results) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${count} ${status}`).join(", ");
}

/** @param {number} since on the clock of `performance.now()` */
export function elapsed(since) {
  const ms = performance.now() - since;
  return ms < 1_000 ? `${ms.toFixed(0)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
