/** Counts the tests of a run. A run that failed never counts as one without failures. */

/** @typedef {{ passed: number, failed: number, skipped: number }} Tally */

/**
 * @param {{
 *   numPassedTests?: number, numFailedTests?: number, numPendingTests?: number, numTodoTests?: number,
 *   testResults?: { status: string, assertionResults: { status: string }[] }[],
 * }} report vitest's JSON report
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
