/** Tests that the last line of `npm test` counts every failure. */
import { expect, test } from "vitest";
import { filesToRepeat, isFailure, tallyAfterRepeat, tallyLine, tallyOf, unstableTests } from "../tally.js";

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

/**
 * @param {string} name
 * @param {...string} tests
 */
const failing = (name, ...tests) => ({
  name,
  status: "failed",
  assertionResults: tests.map((fullName) => ({ status: "failed", fullName })),
});

test("up to three files that failed run again, and more do not", () => {
  const three = ["a", "b", "c"].map((name) => failing(name, "x"));
  expect(filesToRepeat({ testResults: [passedFile, ...three] })).toEqual(["a", "b", "c"]);
  expect(filesToRepeat({ testResults: [...three, failing("d")] })).toEqual([]);
  expect(filesToRepeat({})).toEqual([]);
});

test("what fails twice has failed, and what passes the second time is named as unstable", () => {
  const first = { testResults: [failing("a", "x", "y"), failing("b")] };
  const repeated = { testResults: [failing("a", "y"), { ...passedFile, name: "b" }] };
  expect(unstableTests(first, repeated)).toEqual(["a: x", "b"]);
  const before = { passed: 7, failed: 3, skipped: 1 };
  expect(tallyAfterRepeat(before, { passed: 5, failed: 1, skipped: 0 })).toEqual({
    passed: 9,
    failed: 1,
    skipped: 1,
  });
  // A hook may fail the second time instead of a test, or fail more of them.
  expect(tallyAfterRepeat(before, { passed: 0, failed: 4, skipped: 0 }).failed).toBe(4);
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
