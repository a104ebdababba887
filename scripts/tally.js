/** Counts the tests of a run. A run that failed never counts as one without failures. */

/**
 * @typedef {{ passed: number, failed: number, skipped: number }} Tally
 *
 * @typedef {{
 *   numPassedTests?: number, numFailedTests?: number, numPendingTests?: number, numTodoTests?: number,
 *   testResults?: { name?: string, status: string, assertionResults: { status: string, fullName?: string }[] }[],
 * }} Report vitest's JSON report
 */

/**
 * @param {Report} report
 * @param {boolean} isSuccess whether vitest itself said so by its exit code
 * @returns {Tally}
 */
export function tallyOf(report, isSuccess) {
  // A file that failed before its first test, in an import or a hook, has no failed test.
  const brokenFiles = (report.testResults ?? []).filter(
    ({ status, assertionResults }) =>
      status === "failed" && !assertionResults.some((assertion) => assertion.status === "failed"),
  );
  const passed = report.numPassedTests ?? 0;
  const failed = (report.numFailedTests ?? 0) + brokenFiles.length;
  const skipped = (report.numPendingTests ?? 0) + (report.numTodoTests ?? 0);
  const isUnexplained = failed === 0 && (!isSuccess || passed === 0);
  return { passed, failed: isUnexplained ? 1 : failed, skipped };
}

/**
 * The files to run again: those that failed, unless they are so many that something other than chance made them fail.
 *
 * @param {Report} report
 * @returns {readonly string[]}
 */
export function filesToRepeat({ testResults = [] }) {
  const failed = testResults.filter(({ status }) => status === "failed").map(({ name = "" }) => name);
  return failed.length <= MOST_REPEATED ? failed : [];
}

const MOST_REPEATED = 3;

/**
 * What counts after the failed files ran again: a test that failed twice has failed.
 *
 * @param {Tally} first
 * @param {Tally} repeated
 * @returns {Tally}
 */
export function tallyAfterRepeat(first, repeated) {
  const recovered = Math.max(0, first.failed - repeated.failed);
  return { ...first, passed: first.passed + recovered, failed: repeated.failed };
}

/**
 * The tests that failed only the first time, each with its file.
 *
 * @param {Report} first
 * @param {Report} repeated
 */
export function unstableTests(first, repeated) {
  const failedAgain = new Set(failedTests(repeated));
  return failedTests(first).filter((test) => !failedAgain.has(test));
}

/** @param {Report} report */
function failedTests({ testResults = [] }) {
  return testResults
    .filter(({ status }) => status === "failed")
    .flatMap(({ name = "", assertionResults }) => {
      const failed = assertionResults.filter(({ status }) => status === "failed");
      return failed.length > 0 ? failed.map(({ fullName = "" }) => `${name}: ${fullName}`) : [name];
    });
}

/** @param {Tally} tally */
export function tallyLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/**
 * A skipped test fails in CI, where the list of skips is not read.
 *
 * @param {Tally} tally
 * @param {boolean} isCI
 */
export function isFailure({ failed, skipped }, isCI) {
  return failed > 0 || (isCI && skipped > 0);
}
