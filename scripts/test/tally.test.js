/** Tests that the last line of `npm test` counts every failure. */
import { expect, test } from "vitest";
import { isFailure, tallyLine, tallyOf } from "../tally.js";

const passedFile = { status: "passed", assertionResults: [{ status: "passed" }] };

test("passed, failed and skipped tests are counted", () => {
  const report = {
    numPassedTests: 5,
    numFailedTests: 2,
    numPendingTests: 1,
    numTodoTests: 1,
    testResults: [],
  };
  expect(tallyOf(report, false)).toEqual({ passed: 5, failed: 2, skipped: 2 });
});

test("a file that failed without a failed test counts as one", () => {
  const broken = { status: "failed", assertionResults: [] };
  const failing = { status: "failed", assertionResults: [{ status: "failed" }] };
  const report = { numPassedTests: 1, numFailedTests: 1, testResults: [passedFile, broken, failing] };
  expect(tallyOf(report, false)).toEqual({ passed: 1, failed: 2, skipped: 0 });
});

test("a run that failed for no reason given is a failure", () => {
  expect(tallyOf({ numPassedTests: 1, testResults: [passedFile] }, false)).toEqual({
    passed: 1,
    failed: 1,
    skipped: 0,
  });
});

test("a run without tests, or without a report, is a failure", () => {
  expect(tallyOf({ numPassedTests: 0, testResults: [] }, true).failed).toBe(1);
  expect(tallyOf({}, true).failed).toBe(1);
});

test("the line names skips only if there are any", () => {
  expect(tallyLine({ passed: 3, failed: 0, skipped: 0 })).toBe("3 passed, 0 failed");
  expect(tallyLine({ passed: 3, failed: 1, skipped: 2 })).toBe("3 passed, 1 failed, 2 skipped");
});

test("a skip fails in CI, and nowhere else", () => {
  expect(isFailure({ passed: 3, failed: 0, skipped: 1 }, true)).toBe(true);
  expect(isFailure({ passed: 3, failed: 0, skipped: 1 }, false)).toBe(false);
  expect(isFailure({ passed: 3, failed: 0, skipped: 0 }, true)).toBe(false);
  expect(isFailure({ passed: 3, failed: 1, skipped: 0 }, false)).toBe(true);
});
