/** Tests that what a client judges itself is what the table of core/record.ts answers, at every boundary of its times. */
import { expect, test } from "vitest";
import { claimRecord, type Kept } from "../../../src/core/record.ts";
import type { ClaimAnswer, ClaimRequest } from "../../../src/core/store.ts";
import { claimQuickly, isQuick, UNDECIDED } from "../../../src/stores/redis/quick-claims.ts";
import { claimOf } from "./scene.ts";

const NOW = 1_763_413_000_000;
const LEASE_MS = 30_000;
const RETENTION_MS = 3_600_000;
const LETTERS = { pending: "p", lapsed: "l", released: "r", completed: "c" } as const;
type State = keyof typeof LETTERS;

const { id, parts } = claimOf("t");
const request: ClaimRequest = {
  ...{ id, parts, token: "ours\n\\", leaseMs: LEASE_MS, retentionMs: RETENTION_MS, hold: false },
};

interface Stored {
  readonly state: State;
  readonly isOurs: boolean;
  readonly hold: boolean;
  readonly fingerprint: string | undefined;
  readonly leaseEndsAt: number;
  readonly completedAt: number;
  readonly hasSteps: boolean;
}

const STEP = '["charge",1763413000000,"done"]\n';

/** The record as the table sees it. */
function keptOf({ state, isOurs, leaseEndsAt, completedAt, hasSteps, ...same }: Stored): Kept {
  const token = isOurs ? request.token : "theirs";
  const isCompleted = state === "completed";
  return {
    ...{ id, parts, token, ...same, fence: 17, number: 3, tookOver: false, claimedAt: NOW, leaseEndsAt },
    state: state === "lapsed" ? "pending" : state,
    spent: state === "lapsed" || state === "released",
    leaseMs: LEASE_MS,
    retentionMs: RETENTION_MS,
    keptUntil: (isCompleted ? completedAt : leaseEndsAt) + RETENTION_MS,
    completedAt: isCompleted ? completedAt : undefined,
    outcome: isCompleted ? "out\ncome" : undefined,
    steps: hasSteps && !isCompleted ? `${token}\n${STEP}` : undefined,
  };
}

/** The record as Redis keeps it. */
function textOf({
  state,
  isOurs,
  hold,
  fingerprint = "",
  leaseEndsAt,
  completedAt,
  hasSteps,
}: Stored): string {
  const isCompleted = state === "completed";
  const words = [
    17,
    3,
    hold ? 1 : 0,
    0,
    NOW,
    LEASE_MS,
    leaseEndsAt,
    RETENTION_MS,
    isCompleted ? completedAt : 0,
  ];
  const rest = isCompleted ? "out\ncome" : hasSteps ? STEP : "";
  const token = isOurs ? "ours\\n\\\\" : "theirs";
  return `2${LETTERS[state]}${words.join(" ")}\n${token}\n${fingerprint}\n["n","","o","k"]\n${rest}`;
}

async function quickAnswer(asked: ClaimRequest, found: unknown): Promise<ClaimAnswer | typeof UNDECIDED> {
  const [answer] = await claimQuickly(
    async () => [NOW, 99, [found]],
    (key) => key,
    [asked],
  );
  return answer as ClaimAnswer | typeof UNDECIDED;
}

function* everyRecord(): Generator<Stored> {
  const lefts = [
    -RETENTION_MS - 1,
    -RETENTION_MS,
    1 - RETENTION_MS,
    -1,
    0,
    1,
    LEASE_MS + 1_000,
    LEASE_MS + 1_001,
  ];
  const flags = [false, true];
  for (const state of ["pending", "lapsed", "released", "completed"] as const)
    for (const left of lefts)
      for (const isOurs of flags)
        for (const hold of flags)
          for (const hasSteps of flags)
            for (const fingerprint of [undefined, "1:a", "1:b", "2:a"]) {
              const at = { leaseEndsAt: NOW + left, completedAt: NOW + left };
              yield { state, isOurs, hold, hasSteps, fingerprint, ...at };
            }
}

test("an answer that the client gives is the table's, which then writes nothing", async () => {
  const statuses = new Map<string, number>();
  for (const stored of everyRecord()) {
    for (const fingerprint of [undefined, "1:a"]) {
      const asked = { ...request, fingerprint };
      const quick = await quickAnswer(asked, textOf(stored));
      const status = quick === UNDECIDED ? quick : quick.status;
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      const { answer, write } = claimRecord(keptOf(stored), asked, NOW, () => 99);
      if (quick !== UNDECIDED)
        expect({ stored, quick, write }).toEqual({ stored, quick: answer, write: undefined });
      // What the table answers from a completed or pending record without writing must not take a second trip.
      const isCommon =
        answer.status === "completed" || (answer.status === "pending" && answer.leaseLeftMs > 0);
      if (isCommon && write === undefined)
        expect({ stored, quick }).not.toEqual({ stored, quick: UNDECIDED });
    }
  }
  expect([...statuses.keys()].toSorted()).toEqual(["completed", "conflict", "pending", "undecided"]);
  for (const count of statuses.values()) expect(count).toBeGreaterThan(10);
});

test("only a written claim is granted, and what cannot be read is undecided", async () => {
  const granted = { status: "new", fence: 99, number: 1, tookOver: false };
  expect(await quickAnswer(request, 1)).toEqual(granted);
  // ioredis with `stringNumbers`.
  expect(await quickAnswer(request, "1")).toEqual(granted);
  for (const found of [0, "0", null, undefined, "", "2f17", "3p1", "1\n1\n1\n1\n", ["unreadable", "x"]])
    expect(await quickAnswer(request, found)).toBe(UNDECIDED);
});

test("claims that hold or take over are not quick", () => {
  expect(isQuick(request)).toBe(true);
  expect(isQuick({ ...request, hold: true })).toBe(false);
  expect(isQuick({ ...request, takeover: 17 })).toBe(false);
});

test("claims with different leases or retentions get their own answers, from a script for each", async () => {
  const scripts: string[][] = [];
  const asked = [1, 2, 1, 3].map((leaseMs, index) => ({ ...request, token: `t${index}`, leaseMs }));
  const answers = await claimQuickly(
    async (_, args) => {
      const [, count, ...rest] = args;
      scripts.push(rest);
      return [NOW, Number(rest[Number(count)]), new Array(Number(count)).fill(1)];
    },
    (key) => key,
    asked,
  );
  expect(answers.map((answer) => (answer as { fence: number }).fence)).toEqual([1, 2, 1, 3]);
  expect(scripts).toHaveLength(3);
});
