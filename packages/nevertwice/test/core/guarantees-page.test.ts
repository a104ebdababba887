/** Tests that every cell of the table in docs/guarantees.md says what the state machine does. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  type Kept,
  keepStepRecord,
  renewRecord,
} from "../../src/core/record.ts";

const NOW = 1_000_000;
const PENDING: Kept = {
  id: "id",
  parts: undefined,
  fingerprint: undefined,
  state: "pending",
  token: "own",
  spent: false,
  fence: 7,
  number: 3,
  hold: false,
  tookOver: false,
  claimedAt: NOW - 600,
  leaseMs: 1_000,
  leaseEndsAt: NOW + 400,
  retentionMs: 10_000,
  keptUntil: NOW + 10_400,
  completedAt: undefined,
  outcome: undefined,
};
const LAPSED: Kept = { ...PENDING, leaseEndsAt: NOW - 400 };
const COMPLETED: Kept = { ...PENDING, state: "completed", completedAt: NOW, outcome: "1vp1" };
const others = (record: Kept): Kept => ({ ...record, token: "other" });

/**
 * By the first cell of a row: the records it describes. Where a cell distinguishes own and other tokens, both are
 * given.
 */
const ROWS: Readonly<Record<string, readonly (Kept | undefined)[]>> = {
  absent: [undefined],
  released: [
    others({ ...PENDING, state: "released", spent: true }),
    { ...PENDING, state: "released", spent: true },
  ],
  "pending, own token": [PENDING],
  "pending, another token": [others(PENDING)],
  "lapsed because its lease ended, own token": [LAPSED],
  "lapsed because its own token gave it up as unknown, own token": [{ ...PENDING, spent: true }],
  "lapsed, another token": [others(LAPSED), others({ ...LAPSED, hold: true })],
  completed: [others(COMPLETED), COMPLETED],
};

const CLAIM = { id: "id", parts: undefined, token: "own", leaseMs: 1_000, retentionMs: 1, hold: false };
const COMPLETE = { id: "id", token: "own", outcome: "1vp2", retentionMs: 1 };

/** What the code does, in the words of the page. */
function cellsOf(record: Kept | undefined): readonly string[] {
  const { answer } = claimRecord(record, CLAIM as never, NOW, (after) => after + 1);
  const claimed = { new: "granted", pending: "`pending`", unknown: "`unknown`", completed: "its outcome" };
  const step = ({ answer: isTaken, write }: { answer: boolean; write?: Kept }) =>
    isTaken ? (write === undefined ? "nothing changes" : "accepted") : "refused";
  return [
    claimed[answer.status as keyof typeof claimed],
    step(completeRecord(record, COMPLETE, NOW)),
    step(renewRecord(record, "own", 1_000, NOW)),
    step(abandonRecord(record, "own", "released", NOW)),
    step(keepStepRecord(record, { id: "id", token: "own", name: "charge", outcome: "1vp3" }, NOW)),
  ];
}

test("each cell of the table matches what the record functions answer", () => {
  const page = readFileSync(new URL("../../../../docs/guarantees.md", import.meta.url), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) => line.slice(2, -2).split(" | "));
  expect(rows.map(([name]) => name)).toEqual(Object.keys(ROWS));
  for (const [name = "", ...said] of rows) {
    for (const record of ROWS[name] ?? [])
      for (const [column, done] of cellsOf(record).entries())
        expect(said[column], `${name}, column ${column + 1}`).toContain(done);
    // If all records of a row are refused, the cell must not say that any is accepted.
    for (const [column, cell] of said.entries()) {
      const isRefused = (ROWS[name] ?? []).every((record) => cellsOf(record)[column] === "refused");
      if (isRefused) expect(cell, `${name}, column ${column + 1}`).not.toContain("accepted");
    }
  }
});
