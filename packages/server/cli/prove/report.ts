/** The report of a run: for people as lines, for programs as data. */
import { paint, table } from "../terminal.ts";
import type { FaultTally, RunReport } from "./rounds.ts";

/** How many violations are printed in full. */
const MOST_SHOWN = 3;

export interface RunTotals {
  readonly keys: number;
  readonly calls: number;
  readonly unanswered: number;
  readonly struck: number;
  readonly violations: number;
  /** Keys whose check was given up. */
  readonly undecided: number;
  /** Zero failures in n calls: with 95 % confidence fewer than this share of calls fails. */
  readonly bound: number | null;
}

export function totalsFor(tallies: readonly FaultTally[]): RunTotals {
  const sum = (count: (tally: FaultTally) => number) =>
    tallies.reduce((total, tally) => total + count(tally), 0);
  const calls = sum((tally) => tally.calls);
  const violations = sum((tally) => tally.violations.length);
  return {
    keys: sum(({ keys }) => keys),
    calls,
    unanswered: sum(({ unanswered }) => unanswered),
    struck: sum(({ struck }) => struck),
    violations,
    undecided: sum(({ undecided }) => undecided),
    bound: violations === 0 && calls > 0 ? 3 / calls : null,
  };
}

export const countText = (count: number): string => count.toLocaleString("en-US");

export function reportLines({ tallies, covered }: Pick<RunReport, "tallies" | "covered">): readonly string[] {
  const rows = tallies.map(({ fault, rounds, struck, calls, unanswered, undecided, violations }) => [
    fault,
    rounds,
    countText(struck),
    countText(calls),
    countText(unanswered),
    undecided,
    violations.length,
  ]);
  const columns = ["fault", "rounds", "struck", "calls", "unanswered", "undecided keys", "violations"];
  return [
    ...table(columns, rows, (column, text) =>
      column === "violations" && text !== "0" && text !== "" ? "red" : undefined,
    ),
    "",
    `${covered.size} kinds of steps were seen, such as "lapsed claim taken over".`,
    ...findingLines(tallies),
  ];
}

function findingLines(tallies: readonly FaultTally[]): readonly string[] {
  const found = tallies.flatMap(({ fault, violations }) =>
    violations.map((violation) => ({ fault, ...violation })),
  );
  return [
    ...found
      .slice(0, MOST_SHOWN)
      .flatMap(({ fault, key, explanation }) => [
        "",
        paint("red", `violation under ${fault}, key ${key}:`),
        ...explanation,
      ]),
    ...(found.length > MOST_SHOWN ? ["", `… and ${found.length - MOST_SHOWN} more keys`] : []),
  ];
}

/** A run whose check gave up more than this share of the keys has not checked enough. */
const MOST_UNDECIDED = 0.1;

export function hasPassed({ violations, undecided, keys, calls }: RunTotals): boolean {
  return violations === 0 && calls > 0 && undecided <= keys * MOST_UNDECIDED;
}

/** The last line of the report. */
export function verdictLine(totals: RunTotals): string {
  const { calls, keys, violations, undecided } = totals;
  if (violations > 0)
    return paint("red", `failed: the answers about ${violations} keys contradict each other`);
  if (!hasPassed(totals))
    return paint("red", `failed: only ${keys - undecided} of ${keys} keys could be checked`);
  return paint(
    "green",
    `passed: 0 violations in ${countText(calls)} calls about ${countText(keys - undecided)} keys: under these faults fewer than 1 call in ${countText(Math.floor(calls / 3))} is answered wrongly, with 95 % confidence (3/n)`,
  );
}
