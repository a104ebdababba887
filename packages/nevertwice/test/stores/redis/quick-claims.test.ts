/** Tests that what a client judges itself is what the table of core/record.ts answers, at every boundary of its times. */
import { expect, test } from "vitest";
import { claimRecord, type Kept } from "../../../src/core/record.ts";
import type { ClaimRequest } from "../../../src/core/store.ts";
import type { RunOnRecords } from "../../../src/stores/redis/node-groups.ts";
import {
  createQuickClaims,
  isQuick,
  type QuickAnswer,
  type QuickClaims,
  UNDECIDED,
} from "../../../src/stores/redis/quick-claims.ts";
import { CLAIM_ABSENT } from "../../../src/stores/redis-lua.ts";
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
  const flags = hold ? "10" : "00";
  const ended = isCompleted ? [0, completedAt] : [LEASE_MS, leaseEndsAt];
  const words = [17, 3, flags, NOW, ...ended, RETENTION_MS];
  const rest = isCompleted ? "out\ncome" : hasSteps ? STEP : "";
  const token = isOurs ? "ours\\n\\\\" : "theirs";
  return `3${LETTERS[state]}${words.join(" ")}\n${token}\n${fingerprint}\n["n","","o","k"]\n${rest}`;
}

type QuickClaimsOf = (requests: readonly ClaimRequest[]) => ReturnType<QuickClaims>;

function quickClaims(
  run: RunOnRecords,
  readTexts: () => Promise<unknown> = () => Promise.reject(new Error("not expected")),
  losses = () => 0,
): QuickClaimsOf {
  const claim = createQuickClaims({
    adapter: { isCluster: false, readTexts },
    losses,
    toKey: (key) => key,
  });
  return (requests) => claim(requests, run);
}

async function quickAnswer(asked: ClaimRequest, found: unknown): Promise<QuickAnswer> {
  const [answer] = await quickClaims(async () => [NOW, 99, [found]])([asked]);
  return answer as QuickAnswer;
}

/** The first group finds records, so that the second one reads them beside its script. */
const GROUP = 8;
const FOUND: Stored = {
  ...{ state: "completed", isOurs: false, hold: false, fingerprint: undefined, hasSteps: false },
  ...{ leaseEndsAt: NOW, completedAt: NOW },
};

async function besideAnswers(
  asked: ClaimRequest,
  written: unknown,
  readTexts: () => Promise<unknown>,
  losses?: () => number,
): Promise<readonly QuickAnswer[]> {
  let isFirst = true;
  const run: RunOnRecords = async (script) => {
    if (isFirst) return [NOW, 99, new Array(GROUP).fill(textOf(FOUND))];
    expect(script).toBe(CLAIM_ABSENT);
    return [NOW, 99, written];
  };
  const claim = quickClaims(run, readTexts, losses);
  const first = await claim(new Array<ClaimRequest>(GROUP).fill(request));
  expect(first).toEqual(new Array(GROUP).fill({ status: "completed", outcome: "out\ncome" }));
  isFirst = false;
  return claim(new Array<ClaimRequest>(GROUP).fill(asked));
}

async function besideAnswer(asked: ClaimRequest, text: string): Promise<QuickAnswer> {
  const texts = new Array(GROUP).fill(text);
  const [answer] = await besideAnswers(asked, 0, async () => texts);
  return answer as QuickAnswer;
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

test.for([
  ["from the script", quickAnswer],
  ["beside the script", besideAnswer],
] as const)(
  "an answer that the client gives %s is the table's, which then writes nothing",
  async ([, answerFrom]) => {
    const statuses = new Map<string, number>();
    for (const stored of everyRecord()) {
      for (const fingerprint of [undefined, "1:a"]) {
        const asked = { ...request, fingerprint };
        const quick = await answerFrom(asked, textOf(stored));
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
  },
);

test("only a written claim is granted, and what cannot be read is undecided", async () => {
  const granted = { status: "new", fence: 99, number: 1, tookOver: false };
  expect(await quickAnswer(request, 1)).toEqual(granted);
  // ioredis with `stringNumbers`.
  expect(await quickAnswer(request, "1")).toEqual(granted);
  for (const found of [0, "0", null, undefined, "", "3f17", "4p1", "1\n1\n1\n1\n", ["unreadable", "x"]])
    expect(await quickAnswer(request, found)).toBe(UNDECIDED);
});

test("claims that hold or take over are not quick", () => {
  expect(isQuick(request)).toBe(true);
  expect(isQuick({ ...request, hold: true })).toBe(false);
  expect(isQuick({ ...request, takeover: 17 })).toBe(false);
});

test("claims with different leases or retentions get their own answers, from a script for each", async () => {
  let scripts = 0;
  const asked = [1, 2, 1, 3].map((leaseMs, index) => ({ ...request, token: `t${index}`, leaseMs }));
  const claim = quickClaims(async (_, ids, [leaseMs]) => {
    scripts++;
    return [NOW, Number(leaseMs), ids.map(() => 1)];
  });
  const answers = await claim(asked);
  expect(answers.map((answer) => (answer as { fence: number }).fence)).toEqual([1, 2, 1, 3]);
  expect(scripts).toBe(3);
});

test("a claim that was written is granted, whatever was read beside it", async () => {
  const granted = { status: "new", fence: 99, number: 1, tookOver: false };
  const written = [1, "1", 0, "0", 1, 1, 1, 1];
  const texts = new Array(GROUP).fill(textOf(FOUND));
  const answers = await besideAnswers(request, written, async () => texts);
  const completed = { status: "completed", outcome: "out\ncome" };
  expect(answers).toEqual(written.map((each) => (Number(each) === 1 ? granted : completed)));
});

test("a text that could mean a claim that was written is undecided", async () => {
  for (const text of ["1", "0", "", "3f17"]) expect(await besideAnswer(request, text)).toBe(UNDECIDED);
});

test("without what should be read beside the script, claims that were not written are undecided", async () => {
  const undecided = new Array(GROUP).fill(UNDECIDED);
  const failed = () => Promise.reject(new Error("NOPERM"));
  expect(await besideAnswers(request, 0, failed)).toEqual(undecided);
  // Another user of the connection has a transaction open.
  expect(await besideAnswers(request, 0, async () => "QUEUED")).toEqual(undecided);
  expect(await besideAnswers(request, 0, async () => new Array(GROUP).fill(null))).toEqual(undecided);
});

test("a text that was read before the connection was lost does not count", async () => {
  let losses = 0;
  const texts = async () => {
    losses++;
    return new Array(GROUP).fill(textOf(FOUND));
  };
  expect(await besideAnswers(request, 0, texts, () => losses)).toEqual(new Array(GROUP).fill(UNDECIDED));
});
