/** Tests the referee of the contention trials: it accepts correct behaviour, and reports each broken guarantee. */
import { describe, expect, test } from "vitest";
import { judge, type Note } from "./referee.ts";

const LEASE_MS = 100;

/** A tenure as a process notes it: claimed a millisecond before it owned the key, and its last step answered a millisecond later. */
function tenure(
  attempt: number,
  fence: number,
  from: number,
  to: number,
  { tookOver = false, answer = true } = {},
): Note[] {
  return [
    ["ask", attempt, "key", from - 1_000],
    ["own", attempt, fence, tookOver, from],
    ["try", attempt, "complete", to],
    ["told", attempt, answer, to + 1_000],
  ];
}

const FIRST = tenure(1, 10, 5_000, 20_000);

function problemsOf(...processes: Note[][]): readonly string[] {
  return judge(processes, LEASE_MS).problems;
}

describe("the referee accepts", () => {
  test("owners one after another, with growing fences", () => {
    const verdict = judge([FIRST, tenure(1, 11, 30_000, 40_000)], LEASE_MS);
    expect(verdict).toMatchObject({ problems: [], claims: 2, owners: 2, takeovers: 0, refused: 0 });
  });

  test("a successor that gets its claim before its predecessor gets the answer to its last step", () => {
    expect(problemsOf(FIRST, tenure(1, 11, 20_500, 40_000))).toEqual([]);
  });

  test("a takeover after the lease has ended, and the refusal of late steps", () => {
    const late = tenure(1, 10, 5_000, 300_000, { answer: false });
    const verdict = judge([late, tenure(1, 11, 110_000, 150_000, { tookOver: true })], LEASE_MS);
    expect(verdict).toMatchObject({ problems: [], takeovers: 1, refused: 1 });
  });

  test("a takeover from a process that was killed", () => {
    expect(problemsOf(FIRST.slice(0, 2), tenure(1, 11, 110_000, 150_000, { tookOver: true }))).toEqual([]);
  });

  test("a refusal because of an owner that died before it noted its claim", () => {
    const late = tenure(1, 10, 5_000, 300_000, { answer: false });
    expect(problemsOf(late, [["ask", 1, "key", 200_000]])).toEqual([]);
  });

  test("a late step that is accepted because there was no takeover", () => {
    expect(problemsOf(tenure(1, 10, 5_000, 300_000))).toEqual([]);
  });

  test("refusals, and counts them", () => {
    const { answers } = judge(
      [
        [
          ["ask", 1, "key", 1],
          ["no", 1, "pending"],
        ],
        FIRST,
      ],
      LEASE_MS,
    );
    expect(answers).toEqual({ pending: 1, new: 1 });
  });
});

describe("the referee reports", () => {
  test("two owners at once", () => {
    expect(problemsOf(FIRST, tenure(1, 11, 10_000, 15_000))).toContain(
      "process 1, attempt 1 owned key 10000 µs before process 0, attempt 1 was done with it",
    );
  });

  test("an owner inside the tenure of another with a higher fence", () => {
    expect(problemsOf(FIRST, tenure(1, 9, 10_000, 15_000))).toContain(
      "process 0, attempt 1 owned key 10000 µs before process 1, attempt 1 was done with it",
    );
  });

  test("a takeover before the lease has ended", () => {
    const killed = FIRST.slice(0, 2);
    expect(problemsOf(killed, tenure(1, 11, 90_000, 95_000, { tookOver: true }))).toEqual([
      "process 1, attempt 1 owned key 13000 µs before process 0, attempt 1 was done with it",
    ]);
  });

  test("a takeover before a renewed lease has ended", () => {
    const renewed: Note[] = [...FIRST.slice(0, 2), ["try", 1, "renew", 80_000], ["told", 1, true, 81_000]];
    expect(problemsOf(renewed, tenure(1, 11, 150_000, 160_000, { tookOver: true }))).toHaveLength(1);
    expect(problemsOf(renewed, tenure(1, 11, 180_000, 190_000, { tookOver: true }))).toEqual([]);
  });

  test("a fence that is given twice", () => {
    expect(problemsOf(FIRST, tenure(1, 10, 30_000, 40_000))).toContainEqual(
      expect.stringContaining("owned key with the same fence 10"),
    );
  });

  test("a fence that does not grow", () => {
    expect(problemsOf(FIRST, tenure(1, 9, 30_000, 40_000))).toContain(
      "process 0, attempt 1 owned key 35000 µs before process 1, attempt 1 was done with it",
    );
  });

  test("a step that was accepted after a takeover", () => {
    const late = tenure(1, 10, 5_000, 300_000);
    expect(problemsOf(late, tenure(1, 11, 110_000, 150_000, { tookOver: true }))).toContain(
      "process 0, attempt 1 was overtaken on key, and its complete was accepted",
    );
  });

  test("a step that was refused although there was no takeover", () => {
    expect(problemsOf(tenure(1, 10, 5_000, 20_000, { answer: false }))).toEqual([
      "process 0, attempt 1 owned key alone, and its complete was refused",
    ]);
  });

  test("a takeover that is not reported as one, and another claim that is", () => {
    expect(problemsOf(FIRST.slice(0, 2), tenure(1, 11, 110_000, 150_000))).toHaveLength(1);
    expect(problemsOf(FIRST, tenure(1, 11, 30_000, 40_000, { tookOver: true }))).toHaveLength(1);
  });

  test("an error that reached a caller", () => {
    expect(
      problemsOf([
        ["ask", 1, "key", 1_000],
        ["error", 1, "deadlock detected"],
      ]),
    ).toEqual(["process 0, attempt 1 on key failed: deadlock detected"]);
  });
});
