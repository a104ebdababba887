/**
 * Tests the state machine of one record, cell by cell. The table below is the whole contract: what each step answers
 * in each state, and whether it writes anything.
 */
import { describe, expect, test } from "vitest";
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  forgetRecord,
  isExpired,
  type Kept,
  renewRecord,
  stateOf,
} from "../../src/core/record.ts";
import { viewOf } from "../../src/core/record-details.ts";
import type { ClaimAnswer, ClaimRequest } from "../../src/core/store.ts";

const NOW = 1_000_000;
const PARTS = { namespace: "shop", scope: "", operation: "charge", key: "order-42" };
const OUTCOME = "1vp1";

/** Claimed 600 ms ago for one second, with our own token, as the third attempt. */
const PENDING: Kept = {
  id: "id",
  parts: PARTS,
  fingerprint: "1:aa",
  state: "pending",
  token: "own",
  spent: false,
  fence: 7,
  number: 3,
  hold: false,
  tookOver: false,
  claimedAt: 999_400,
  leaseMs: 1_000,
  leaseEndsAt: 1_000_400,
  retentionMs: 10_000,
  keptUntil: 1_010_400,
  completedAt: undefined,
  outcome: undefined,
};
const OTHERS = { token: "other" };
const LAPSED: Kept = { ...PENDING, claimedAt: 998_000, leaseEndsAt: 999_000, keptUntil: 1_009_000 };
/** Given up while its lease still ran, and therefore lapsed. */
const SPENT: Kept = { ...PENDING, spent: true };
const RELEASED: Kept = { ...PENDING, state: "released", spent: true };
const COMPLETED: Kept = {
  ...PENDING,
  state: "completed",
  completedAt: 999_900,
  outcome: OUTCOME,
  keptUntil: 1_009_900,
};
const OVER = { keptUntil: NOW };

const STATES: Readonly<Record<string, Kept | undefined>> = {
  absent: undefined,
  "expired, was lapsed": { ...LAPSED, ...OVER },
  "expired, was released": { ...RELEASED, leaseEndsAt: 990_000, ...OVER },
  "expired, was completed": { ...COMPLETED, ...OVER },
  "released, other": { ...RELEASED, ...OTHERS },
  "released, own": RELEASED,
  "pending, own": PENDING,
  "pending, other": { ...PENDING, ...OTHERS },
  "pending, held, other": { ...PENDING, ...OTHERS, hold: true },
  "lapsed, own": LAPSED,
  "lapsed, other": { ...LAPSED, ...OTHERS },
  "lapsed, given up, own": SPENT,
  "lapsed, given up, other": { ...SPENT, ...OTHERS },
  "lapsed, held, own": { ...LAPSED, hold: true },
  "lapsed, held, other": { ...LAPSED, ...OTHERS, hold: true },
  "lapsed, held, old": { ...LAPSED, ...OTHERS, hold: true, keptUntil: 1 },
  "completed, own": COMPLETED,
  "completed, other": { ...COMPLETED, ...OTHERS },
};

/**
 * `new 4@8`: attempt 4 with fence 8; `+`: over a lapsed record; `pending 400`: the lease has 400 ms left; `unknown
 * 7`: with fence 7. `!`: something is written. A forgotten record is `gone`, leaves a `marker`, or is `open`.
 */
const TABLE = `
| the record is           | claim      | claim, hold | takeover 7 | takeover 6  | complete | renew  | released | unknown | unrun  | forget 7 | forget 6 | reopen 7 | reopen 6 |
| absent                  | new 1@1 !  | new 1@1 !   | pending 0  | pending 0   | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| expired, was lapsed     | new 1@8 !  | new 1@8 !   | pending 0  | pending 0   | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| expired, was released   | new 1@8 !  | new 1@8 !   | pending 0  | pending 0   | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| expired, was completed  | new 1@8 !  | new 1@8 !   | pending 0  | pending 0   | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| released, other         | new 4@8 !  | new 4@8 !   | pending 0  | pending 0   | false    | false  | false    | false   | false  | gone     | false    | gone     | false    |
| released, own           | pending 0  | pending 0   | pending 0  | pending 0   | false    | false  | true     | true    | true   | gone     | false    | gone     | false    |
| pending, own            | new 3@7 !  | new 3@7 !   | new 3@7 !  | new 3@7 !   | true !   | true ! | true !   | true !  | true ! | false    | false    | false    | false    |
| pending, other          | pending 400| pending 400 | pending 400| pending 400 | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| pending, held, other    | pending 400| pending 400 | pending 400| pending 400 | false    | false  | false    | false   | false  | false    | false    | false    | false    |
| lapsed, own             | new 3@7 !  | new 3@7 !   | new 3@7 !  | new 3@7 !   | true !   | true ! | true !   | true !  | true ! | gone     | false    | gone     | false    |
| lapsed, other           | new 4@8+ ! | unknown 7   | new 4@8+ ! | unknown 7   | false    | false  | false    | false   | false  | gone     | false    | gone     | false    |
| lapsed, given up, own   | pending 0  | pending 0   | pending 0  | pending 0   | true !   | false  | true     | true    | true   | gone     | false    | gone     | false    |
| lapsed, given up, other | new 4@8+ ! | unknown 7   | new 4@8+ ! | unknown 7   | false    | false  | false    | false   | false  | gone     | false    | gone     | false    |
| lapsed, held, own       | new 3@7 !  | new 3@7 !   | new 3@7 !  | new 3@7 !   | true !   | true ! | true !   | true !  | true ! | gone     | false    | gone     | false    |
| lapsed, held, other     | unknown 7  | unknown 7   | new 4@8+ ! | unknown 7   | false    | false  | false    | false   | false  | gone     | false    | gone     | false    |
| lapsed, held, old       | unknown 7  | unknown 7   | new 4@8+ ! | unknown 7   | false    | false  | false    | false   | false  | gone     | false    | gone     | false    |
| completed, own          | completed  | completed   | completed  | completed   | true     | false  | false    | false   | false  | marker ! | false    | open !   | false    |
| completed, other        | completed  | completed   | completed  | completed   | false    | false  | false    | false   | false  | marker ! | false    | open !   | false    |
`;

/** The same claims with a different fingerprint. */
const CONFLICTS = `
| the record is           | claim             | claim, hold       | takeover 7        | takeover 6        |
| absent                  | new 1@1 !         | new 1@1 !         | pending 0         | pending 0         |
| expired, was lapsed     | new 1@8 !         | new 1@8 !         | pending 0         | pending 0         |
| expired, was released   | new 1@8 !         | new 1@8 !         | pending 0         | pending 0         |
| expired, was completed  | new 1@8 !         | new 1@8 !         | pending 0         | pending 0         |
| released, other         | new 4@8 !         | new 4@8 !         | pending 0         | pending 0         |
| released, own           | pending 0         | pending 0         | pending 0         | pending 0         |
| pending, own            | conflict pending  | conflict pending  | conflict pending  | conflict pending  |
| pending, other          | conflict pending  | conflict pending  | conflict pending  | conflict pending  |
| pending, held, other    | conflict pending  | conflict pending  | conflict pending  | conflict pending  |
| lapsed, own             | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, other           | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, given up, own   | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, given up, other | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, held, own       | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, held, other     | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| lapsed, held, old       | conflict lapsed   | conflict lapsed   | conflict lapsed   | conflict lapsed   |
| completed, own          | conflict completed| conflict completed| conflict completed| conflict completed|
| completed, other        | conflict completed| conflict completed| conflict completed| conflict completed|
`;

type Step = (record: Kept | undefined) => string;

const REQUEST: ClaimRequest = {
  id: "id",
  parts: PARTS,
  fingerprint: "1:aa",
  token: "own",
  leaseMs: 2_000,
  retentionMs: 20_000,
  hold: false,
};
const COMPLETE = { id: "id", token: "own", outcome: OUTCOME, retentionMs: 5_000 };
const nextFence = (after: number) => after + 1;

const STEPS: Readonly<Record<string, Step>> = {
  claim: claimStep({}),
  "claim, hold": claimStep({ hold: true }),
  "takeover 7": claimStep({ takeover: 7 }),
  "takeover 6": claimStep({ takeover: 6 }),
  complete: (record) => formatStep(completeRecord(record, COMPLETE, NOW)),
  renew: (record) => formatStep(renewRecord(record, "own", 2_000, NOW)),
  released: (record) => formatStep(abandonRecord(record, "own", "released", NOW)),
  unknown: (record) => formatStep(abandonRecord(record, "own", "unknown", NOW)),
  unrun: (record) => formatStep(abandonRecord(record, "own", "unrun", NOW)),
  "forget 7": (record) => forgetStep(record, 7),
  "forget 6": (record) => forgetStep(record, 6),
  "reopen 7": (record) => forgetStep(record, 7, true),
  "reopen 6": (record) => forgetStep(record, 6, true),
};

function claimStep(request: Partial<ClaimRequest>): Step {
  return (record) => {
    const { answer, write } = claimRecord(record, { ...REQUEST, ...request }, NOW, nextFence);
    return `${formatAnswer(answer)}${write === undefined ? "" : " !"}`;
  };
}

function formatAnswer(answer: ClaimAnswer): string {
  switch (answer.status) {
    case "new":
      return `new ${answer.number}@${answer.fence}${answer.tookOver ? "+" : ""}`;
    case "pending":
      return `pending ${answer.leaseLeftMs}`;
    case "unknown":
      return `unknown ${answer.fence}`;
    case "conflict":
      return `conflict ${answer.state}`;
    case "completed":
      return answer.outcome === OUTCOME ? "completed" : "completed with another outcome";
  }
}

function formatStep({ answer, write }: { readonly answer: boolean; readonly write?: Kept }): string {
  return `${answer}${write === undefined ? "" : " !"}`;
}

function forgetStep(record: Kept | undefined, fence: number, reopen = false): string {
  const { answer, write } = forgetRecord(record, { fence, reopen }, NOW);
  if (!answer) return formatStep({ answer, ...(write && { write }) });
  if (write === undefined) return "gone";
  return write.state === "released" ? "open !" : "marker !";
}

/** Every cell of the table: its row, its column and its text. */
function cellsOf(table: string): [row: string, column: string, cell: string][] {
  const lines = table.trim().split("\n");
  const [columns, ...rows] = lines.map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  ) as [string[], ...string[][]];
  return rows.flatMap(([row, ...cells]) =>
    cells.map((cell, i): [string, string, string] => [row as string, columns[i + 1] as string, cell]),
  );
}

describe("the contract", () => {
  test("has every state and every step in its table", () => {
    const cells = cellsOf(TABLE);
    expect([...new Set(cells.map(([row]) => row))]).toEqual(Object.keys(STATES));
    expect([...new Set(cells.map(([, column]) => column))]).toEqual(Object.keys(STEPS));
    expect(cells.length).toBe(18 * 13);
  });

  test.each(cellsOf(TABLE))("%s: %s answers %s", (row, column, cell) => {
    expect(STEPS[column]?.(Object.freeze(STATES[row]))).toBe(cell);
  });

  test.each(cellsOf(CONFLICTS))("%s, with another fingerprint: %s answers %s", (row, column, cell) => {
    const record = STATES[row] && Object.freeze({ ...STATES[row], fingerprint: "1:bb" });
    expect(STEPS[column]?.(record)).toBe(cell);
  });

  test.each([
    ["the record has none", undefined, "1:aa"],
    ["the claim has none", "1:aa", undefined],
    ["they are of different versions", "2:aa", "1:bb"],
  ])("does not compare fingerprints if %s", (_, kept, asked) => {
    const record: Kept = { ...COMPLETED, fingerprint: kept };
    const { answer } = claimRecord(record, { ...REQUEST, fingerprint: asked }, NOW, nextFence);
    expect(answer).toEqual({ status: "completed", outcome: OUTCOME });
  });

  test("requests a fence only for a new attempt, above the last fence, expired or not", () => {
    const asked: [state: string, after: number][] = [];
    for (const [state, record] of Object.entries(STATES)) {
      claimRecord(record, REQUEST, NOW, (after) => {
        asked.push([state, after]);
        return after + 1;
      });
    }
    expect(asked).toEqual([
      ["absent", 0],
      ["expired, was lapsed", 7],
      ["expired, was released", 7],
      ["expired, was completed", 7],
      ["released, other", 7],
      ["lapsed, other", 7],
      ["lapsed, given up, other", 7],
    ]);
  });
});

const written = (record: Kept | undefined, request: Partial<ClaimRequest> = {}) =>
  claimRecord(record, { ...REQUEST, ...request }, NOW, nextFence).write;

describe("a claim writes", () => {
  const FIRST: Kept = {
    id: "id",
    parts: PARTS,
    fingerprint: "1:aa",
    state: "pending",
    token: "own",
    spent: false,
    fence: 1,
    number: 1,
    hold: false,
    tookOver: false,
    claimedAt: 1_000_000,
    leaseMs: 2_000,
    leaseEndsAt: 1_002_000,
    retentionMs: 20_000,
    keptUntil: 1_022_000,
    completedAt: undefined,
    outcome: undefined,
  };

  test("a first attempt if there is no record", () => {
    expect(written(undefined)).toEqual(FIRST);
    expect(written(undefined, { hold: true })).toEqual({ ...FIRST, hold: true });
  });

  test("a first attempt over an expired record, of which only the higher fence remains", () => {
    const old: Kept = { ...COMPLETED, ...OVER, hold: true, tookOver: true, fingerprint: "1:bb" };
    expect(written(old, { fingerprint: undefined })).toEqual({ ...FIRST, fence: 8, fingerprint: undefined });
  });

  test("the next attempt over a released record, with a new fingerprint and a new hold", () => {
    const released: Kept = { ...RELEASED, ...OTHERS, hold: true, tookOver: true, fingerprint: "1:bb" };
    const next = { ...FIRST, fence: 8, number: 4, history: "own\n;3 7 999400 r" };
    expect(written(released)).toEqual(next);
    expect(written(released, { fingerprint: undefined })).toEqual({ ...next, fingerprint: undefined });
  });

  test("the next attempt over a lapsed record, with the record's fingerprint and hold", () => {
    const lapsed: Kept = { ...LAPSED, ...OTHERS, hold: true };
    const history = "own\n;3 7 998000 999000";
    const next: Kept = { ...FIRST, fence: 8, number: 4, tookOver: true, hold: true, history };
    expect(written(lapsed, { takeover: 7, fingerprint: undefined })).toEqual(next);
    expect(written({ ...LAPSED, ...OTHERS })).toEqual({ ...next, hold: false });
    expect(written({ ...LAPSED, ...OTHERS, fingerprint: undefined })).toEqual({ ...next, hold: false });
    expect(written({ ...LAPSED, ...OTHERS }, { takeover: 7, hold: true })).toEqual(next);
  });

  test("only the lease when its own token repeats the claim, and a hold if requested", () => {
    const repeated: Kept = { ...LAPSED, leaseMs: 2_000, leaseEndsAt: 1_002_000, keptUntil: 1_012_000 };
    expect(written(LAPSED)).toEqual(repeated);
    expect(written(LAPSED, { hold: true })).toEqual({ ...repeated, hold: true });
    expect(written({ ...LAPSED, hold: true })).toEqual({ ...repeated, hold: true });
    expect(written({ ...LAPSED, tookOver: true })).toEqual({ ...repeated, tookOver: true });
  });

  test("clock-jump: a deadline too far ahead is brought back to one lease, and the claim stays pending", () => {
    const far: Kept = { ...PENDING, ...OTHERS, leaseEndsAt: 1_002_001, keptUntil: 1_012_001 };
    expect(claimRecord(far, REQUEST, NOW, nextFence)).toEqual({
      answer: { status: "pending", leaseLeftMs: 1_000, elapsedMs: 600 },
      write: { ...far, leaseEndsAt: 1_001_000, keptUntil: 1_011_000 },
    });
    const atTheMargin: Kept = { ...far, leaseEndsAt: 1_002_000 };
    expect(claimRecord(atTheMargin, REQUEST, NOW, nextFence)).toEqual({
      answer: { status: "pending", leaseLeftMs: 2_000, elapsedMs: 600 },
    });
  });
});

describe("the other steps write", () => {
  const done = {
    state: "completed",
    completedAt: 1_000_000,
    outcome: OUTCOME,
    retentionMs: 5_000,
    keptUntil: 1_005_000,
  } as const;

  test.each([
    ["a pending record", PENDING],
    ["a lapsed record that was not taken over", LAPSED],
    ["a held record", { ...LAPSED, hold: true, keptUntil: 1 }],
    ["a record that was given up as unknown", SPENT],
  ])("complete: the outcome, with retention from now on, over %s", (_, record) => {
    expect(completeRecord(record, COMPLETE, NOW).write).toEqual({ ...record, ...done });
  });

  test("renew: a lease from now on, the dates that depend on it, and a note", () => {
    const history = "own\n 1 1000000";
    const renewed = { leaseMs: 2_000, leaseEndsAt: 1_002_000, keptUntil: 1_012_000, history };
    expect(renewRecord(PENDING, "own", 2_000, NOW).write).toEqual({ ...PENDING, ...renewed });
    expect(renewRecord(LAPSED, "own", 2_000, NOW).write).toEqual({ ...LAPSED, ...renewed });
  });

  // The lease of an unknown attempt ends with it, which says when the record lapsed. A released one keeps the lease it had.
  test.each([
    ["released", false, "released", 1_000_400],
    ["released", true, "released", 1_000_400],
    ["unknown", false, "pending", 1_000_000],
    ["unknown", true, "pending", 1_000_000],
    ["unrun", false, "released", 1_000_400],
    ["unrun", true, "pending", 1_000_000],
  ] as const)(
    "abandon as %s (took over: %s): %s, its token spent, its retention unchanged, and a note",
    (as, tookOver, state, leaseEndsAt) => {
      const record: Kept = { ...PENDING, tookOver };
      expect(abandonRecord(record, "own", as, NOW).write).toEqual({
        ...record,
        state,
        spent: true,
        leaseEndsAt,
        history: `own\n 0 0 1000000 ${as}`,
      });
    },
  );

  test("forget over completed: a marker without content that is kept for the same time", () => {
    expect(forgetRecord(COMPLETED, { fence: 7 }, NOW).write).toEqual({
      ...COMPLETED,
      parts: undefined,
      fingerprint: undefined,
      outcome: '["1np",{"reason":"forgotten"}]',
    });
  });

  test("reopen over completed: released, its token spent, without its outcome, kept for the same time", () => {
    expect(forgetRecord(COMPLETED, { fence: 7, reopen: true }, NOW).write).toEqual({
      ...COMPLETED,
      state: "released",
      spent: true,
      completedAt: undefined,
      outcome: undefined,
      history: "own\n 0 0 999900 completed",
    });
  });
});

test("a takeover that is given back as unrun leaves the record lapsed for the next claim", () => {
  const takenOver = written({ ...LAPSED, ...OTHERS, hold: true }, { takeover: 7 });
  const givenBack = abandonRecord(takenOver, "own", "unrun", NOW + 1).write as Kept;
  expect(stateOf(givenBack, NOW + 1)).toBe("lapsed");
  const stranger = { ...REQUEST, token: "third" };
  expect(claimRecord(givenBack, stranger, NOW + 2, nextFence).answer).toEqual({
    status: "unknown",
    fence: 8,
  });
  expect(claimRecord(givenBack, { ...stranger, takeover: 7 }, NOW + 2, nextFence).answer).toEqual({
    status: "unknown",
    fence: 8,
  });
  expect(claimRecord(givenBack, { ...stranger, takeover: 8 }, NOW + 2, nextFence).answer).toEqual({
    status: "new",
    fence: 9,
    number: 5,
    tookOver: true,
  });
});

describe("a deadline", () => {
  test("of a lease has passed at its own millisecond", () => {
    expect(stateOf(PENDING, 1_000_399)).toBe("pending");
    expect(stateOf(PENDING, 1_000_400)).toBe("lapsed");
    expect(stateOf(SPENT, 1_000_399)).toBe("lapsed");
    expect(stateOf(COMPLETED, 2_000_000)).toBe("completed");
    expect(stateOf(RELEASED, 2_000_000)).toBe("released");
  });

  test("of a retention has passed at its own millisecond", () => {
    for (const record of [PENDING, SPENT, RELEASED]) {
      expect([isExpired(record, 1_010_399), isExpired(record, 1_010_400)]).toEqual([false, true]);
    }
    expect([isExpired(COMPLETED, 1_009_899), isExpired(COMPLETED, 1_009_900)]).toEqual([false, true]);
  });

  test("does not expire a held record before it is decided", () => {
    expect(isExpired({ ...LAPSED, hold: true }, Number.MAX_SAFE_INTEGER)).toBe(false);
    expect(isExpired({ ...SPENT, hold: true }, Number.MAX_SAFE_INTEGER)).toBe(false);
    expect(isExpired({ ...COMPLETED, hold: true }, 1_009_900)).toBe(true);
    expect(isExpired({ ...RELEASED, hold: true }, 1_010_400)).toBe(true);
  });
});

test.each<[state: string, record: Kept, leaseLeftMs: number, lapsedAt?: number]>([
  ["pending", PENDING, 400],
  ["lapsed", LAPSED, 0, 999_000],
  ["lapsed", SPENT, 0, 1_000_000],
  ["released", RELEASED, 0],
  ["completed", COMPLETED, 0],
])(
  "the view of a %s record has the remaining lease, and no internal fields",
  (state, record, leaseLeftMs, lapsedAt) => {
    expect(viewOf(record, NOW)).toEqual({
      id: "id",
      parts: PARTS,
      fingerprint: "1:aa",
      state,
      token: "own",
      fence: 7,
      number: 3,
      hold: false,
      claimedAt: record.claimedAt,
      leaseLeftMs,
      completedAt: record.completedAt,
      keptUntil: record.keptUntil,
      outcome: record.outcome,
      ...(lapsedAt !== undefined && { lapsedAt }),
    });
  },
);
