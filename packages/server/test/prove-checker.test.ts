/** Tests the checker of histories (cli/prove/linearizability.ts) on histories that are known to be right or wrong. */
import { describe, expect, it } from "vitest";
import type { KeyAnswer, KeyOperation } from "../cli/prove/history.ts";
import type { ClockBounds } from "../cli/prove/key-state.ts";
import { checkKeyHistory } from "../cli/prove/linearizability.ts";
import { seededDraws } from "../cli/prove/random.ts";
import { recordedHistory } from "./prove/recorded-history.ts";
import {
  abandon,
  claim,
  complete,
  completed,
  forget,
  granted,
  history,
  NEVER,
  pending,
  read,
  renew,
  seen,
  unknown,
  unseen,
} from "./prove/scripted-history.ts";

const BOUNDS: ClockBounds = { earlyMs: 2, lateMs: 50 };
const resultOf = (operations: readonly KeyOperation[], bounds = BOUNDS) =>
  checkKeyHistory(operations, { bounds }).result;

const RIGHT: Readonly<Record<string, readonly KeyOperation[]>> = {
  "nothing happened": history(),
  "a claim, its completion and a replay": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, claim("b"), completed("of a")],
    [6, 7, read, seen("completed", "a", 10, { outcome: "of a" })],
  ),
  "two claims at once, one of which is granted": history(
    [0, 10, claim("a"), pending],
    [1, 9, claim("b"), granted(10)],
  ),
  "a claim that was answered after the completion it saw": history(
    [0, 1, claim("a"), granted(10)],
    [2, 20, complete("a"), true],
    [3, 12, claim("b"), pending],
    [13, 14, claim("c"), completed("of a")],
  ),
  "a released key is claimed again": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("b"), granted(11, 2)],
  ),
  "a lapsed claim is taken over": history(
    [0, 1, claim("a"), granted(10)],
    [1_100, 1_101, claim("b"), granted(11, 2, true)],
    [1_102, 1_103, complete("a"), false],
  ),
  "a renewal keeps the key": history(
    [0, 1, claim("a"), granted(10)],
    [900, 901, renew("a"), true],
    [1_500, 1_501, claim("b"), pending],
    [2_000, 2_001, claim("c"), granted(11, 2, true)],
  ),
  "an owner completes after its lease, because nobody took over": history(
    [0, 1, claim("a"), granted(10)],
    [5_000, 5_001, complete("a"), true],
    [5_002, 5_003, complete("a"), true],
  ),
  "a held claim waits for a decision, which has its fence": history(
    [0, 1, claim("a", { hold: true }), granted(10)],
    [1_200, 1_201, claim("b"), unknown(10)],
    [1_202, 1_203, claim("c", { takeover: 9 }), unknown(10)],
    [1_204, 1_205, claim("d", { takeover: 10 }), granted(11, 2, true)],
  ),
  "a claim that was given up as unknown lapses at once": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a", "unknown"), true],
    [4, 5, read, seen("lapsed", "a", 10)],
    [6, 7, claim("a"), pending],
    [8, 9, claim("b"), granted(11, 2, true)],
    [10, 11, abandon("b", "unrun"), true],
    [12, 13, read, seen("lapsed", "b", 11, { number: 2 })],
  ),
  "a claim without an answer took effect": history(
    [0, NEVER, claim("a")],
    [10, 11, claim("b"), pending],
    [12, 13, read, seen("pending", "a", 10)],
  ),
  "a claim without an answer never took effect": history(
    [0, NEVER, claim("a")],
    [10, 11, claim("b"), granted(10)],
    [12, 13, complete("b"), true],
  ),
  "a claim without an answer took effect late": history(
    [0, NEVER, claim("a")],
    [10, 11, claim("b"), granted(10)],
    [12, 13, abandon("b"), true],
    [14, 15, claim("c"), pending],
    [16, 17, claim("a"), granted(11, 2)],
  ),
  "the claim of a lost answer is recognised": history(
    [0, NEVER, claim("a")],
    [10, 11, claim("a"), granted(10)],
    [12, NEVER, complete("a")],
    [20, 21, complete("a"), true],
  ),
  "an unanswered completion shows later": history(
    [0, 1, claim("a"), granted(10)],
    [2, NEVER, complete("a")],
    [3, 4, claim("b"), pending],
    [5, 6, claim("c"), completed("of a")],
  ),
  "another request under the same key": history(
    [0, 1, claim("a", { fingerprint: "2:x" }), granted(10)],
    [2, 3, claim("b", { fingerprint: "2:y" }), { status: "conflict", state: "pending" }],
    [4, 5, claim("c", { fingerprint: "1:y" }), pending],
    [6, 7, abandon("a"), true],
    [8, 9, claim("d", { fingerprint: "2:y" }), granted(11, 2)],
  ),
  "a claim that does not wait for the one that is being written compares nothing": history(
    [0, 20, claim("a", { fingerprint: "2:x" }), granted(10)],
    [1, 5, claim("b", { fingerprint: "2:y" }), { status: "conflict", state: "pending" }],
    [6, 9, claim("c", { fingerprint: "2:y" }), unseen],
  ),
  "a forgotten record leaves a marker": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, forget(9), false],
    [6, 7, forget(10), true],
    [8, 9, claim("b"), completed("a marker: forgotten")],
  ),
  "a reopened record is claimed again": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, forget(10, true), true],
    [6, 7, read, seen("released", "a", 10)],
    [8, 9, claim("b"), granted(11, 2)],
  ),
  "a released record that is forgotten is gone": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, forget(10), false],
    [4, 5, abandon("a"), true],
    [6, 7, forget(10), true],
    [8, 9, read, null],
    [10, 11, claim("b"), granted(11)],
  ),
  "retention ends": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [60_200, 60_201, read, null],
    [60_202, 60_203, complete("a"), false],
    [60_204, 60_205, claim("b"), granted(11)],
  ),
};

const WRONG: Readonly<Record<string, readonly KeyOperation[]>> = {
  "two owners at once": history([0, 10, claim("a"), granted(10)], [1, 9, claim("b"), granted(11)]),
  "a takeover of a lease that runs": history(
    [0, 1, claim("a"), granted(10)],
    [500, 501, claim("b"), granted(11, 2, true)],
  ),
  "a takeover that is not reported as one": history(
    [0, 1, claim("a"), granted(10)],
    [1_100, 1_101, claim("b"), granted(11, 2)],
  ),
  "a fence that does not grow": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("b"), granted(10, 2)],
  ),
  "a fence that falls after the record is gone": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, forget(10), true],
    [6, 7, claim("b"), granted(9)],
  ),
  "a late writer is accepted": history(
    [0, 1, claim("a"), granted(10)],
    [1_100, 1_101, claim("b"), granted(11, 2, true)],
    [1_102, 1_103, complete("a"), true],
  ),
  "a late renewal is accepted": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("b"), granted(11, 2)],
    [6, 7, renew("a"), true],
  ),
  "a completion is lost": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, claim("b"), pending],
  ),
  "a completed key is claimed again": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, claim("b"), granted(11, 2)],
  ),
  "an outcome changes": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, claim("b"), completed("of b")],
  ),
  "a second completion replaces the outcome": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, complete("a", "other"), true],
    [6, 7, claim("b"), completed("other")],
  ),
  "an owner is refused": history([0, 1, claim("a"), granted(10)], [2, 3, complete("a"), false]),
  "a read of an older state": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, read, seen("pending", "a", 10)],
  ),
  "a read that finds nothing": history([0, 1, claim("a"), granted(10)], [2, 3, read, null]),
  "a held claim is taken over without a decision": history(
    [0, 1, claim("a", { hold: true }), granted(10)],
    [1_200, 1_201, claim("b"), granted(11, 2, true)],
  ),
  "a decision about an older attempt is accepted": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("b", { hold: true }), granted(11, 2)],
    [1_200, 1_201, claim("c", { takeover: 10 }), granted(12, 3, true)],
  ),
  "a lease never ends": history([0, 1, claim("a"), granted(10)], [1_200, 1_201, claim("b"), pending]),
  "a token that gave up claims again": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("a"), granted(11, 2)],
  ),
  "another request gets the outcome": history(
    [0, 1, claim("a", { fingerprint: "2:x" }), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, claim("b", { fingerprint: "2:y" }), completed("of a")],
  ),
  "another request is told how long the owner has run": history(
    [0, 1, claim("a", { fingerprint: "2:x" }), granted(10)],
    [2, 3, claim("b", { fingerprint: "2:y" }), { status: "pending", leaseLeftMs: 900, elapsedMs: 2 }],
  ),
  "a number is skipped": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, claim("b"), granted(11, 3)],
  ),
  "a forgotten outcome comes back": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [4, 5, forget(10), true],
    [6, 7, claim("b"), granted(11)],
  ),
  "a forget with another fence is accepted": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, abandon("a"), true],
    [4, 5, forget(9), true],
  ),
  "retention ends early": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [30_000, 30_001, read, null],
  ),
  "retention does not end": history(
    [0, 1, claim("a"), granted(10)],
    [2, 3, complete("a"), true],
    [61_000, 61_001, claim("b"), completed("of a")],
  ),
  "an unanswered claim explains only one owner": history(
    [0, NEVER, claim("a")],
    [10, 11, claim("b"), granted(10)],
    [12, 13, abandon("b"), true],
    [14, 15, claim("c"), pending],
    [1_300, 1_301, claim("d"), granted(13, 4, true)],
  ),
};

describe("a history that is right", () => {
  for (const [name, operations] of Object.entries(RIGHT))
    it(`is accepted: ${name}`, () => {
      const { result, explanation } = checkKeyHistory(operations, { bounds: BOUNDS });
      expect(result, explanation.join("\n")).toBe("linearizable");
    });
});

describe("a history that is wrong", () => {
  for (const [name, operations] of Object.entries(WRONG))
    it(`is refused: ${name}`, () => {
      const { result, explanation } = checkKeyHistory(operations, { bounds: BOUNDS });
      expect(result).toBe("violation");
      expect(explanation.join("\n")).toContain("none of these answers is possible");
    });
});

describe("the clock of the store", () => {
  const early = WRONG["a takeover of a lease that runs"] as readonly KeyOperation[];
  const late = WRONG["a lease never ends"] as readonly KeyOperation[];
  const lower = WRONG["a fence that falls after the record is gone"] as readonly KeyOperation[];

  it("may end a lease within its bounds, and no further", () => {
    expect(resultOf(early, { earlyMs: 510, lateMs: 50 })).toBe("linearizable");
    expect(resultOf(late, { earlyMs: 2, lateMs: 250 })).toBe("linearizable");
    expect(resultOf(late, { earlyMs: 2, lateMs: Number.POSITIVE_INFINITY })).toBe("linearizable");
  });

  it("lets fences fall only if it may go back", () => {
    expect(resultOf(lower, { ...BOUNDS, goesBack: true })).toBe("linearizable");
  });
});

describe("recorded histories of the memory store", () => {
  it("are accepted, whatever is lost, and cover what calls can do", async () => {
    const covered = new Set<string>();
    for (let seed = 1; seed <= 60; seed++) {
      const operations = await recordedHistory(seed, 80);
      const verdict = checkKeyHistory(operations, { bounds: BOUNDS });
      expect(verdict.result, `seed ${seed}\n${verdict.explanation.join("\n")}`).toBe("linearizable");
      for (const what of verdict.covered) covered.add(what);
    }
    expect([...covered].sort()).toEqual(expect.arrayContaining(COVERED));
  });

  it("are refused after one answer was changed to an impossible one", async () => {
    let changed = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const operations = await recordedHistory(seed, 60);
      for (const mutated of mutants(operations, seed)) {
        changed++;
        expect(resultOf(mutated), `seed ${seed}`).toBe("violation");
      }
    }
    expect(changed).toBeGreaterThan(150);
  });

  it("of a thousand calls to one key are decided, whether they are right or wrong", async () => {
    const operations = await recordedHistory(1, 1_000, 0.01);
    expect(operations.length).toBeGreaterThanOrEqual(1_000);
    expect(resultOf(operations)).toBe("linearizable");
    const [mutated] = mutants(operations, 1);
    expect(resultOf(mutated as readonly KeyOperation[])).toBe("violation");
  });

  it("of three thousand calls to one key are decided", async () => {
    expect(resultOf(await recordedHistory(2, 3_000, 0.01))).toBe("linearizable");
  });
});

it("gives up a search that takes too long, and says so", () => {
  // Claims that differ only in a lease may have been granted in any order, and none explains the last answer.
  const lost = Array.from({ length: 14 }, (_, i) => [i, NEVER, claim(`t${i}`, { leaseMs: 1 + i })] as const);
  const operations = history(...lost, [10_000, 10_001, read, seen("pending", "t0", 1, { number: 20 })]);
  expect(checkKeyHistory(operations, { bounds: BOUNDS, mostVisits: 5_000 }).result).toBe("undecided");
});

/** Some of what happens in the recorded histories. */
const COVERED = [
  "absent claim new",
  "absent read nothing",
  "completed claim completed",
  "completed forget reopened",
  "completed forget true",
  "lapsed claim taken over",
  "lapsed claim unknown",
  "lapsed complete true",
  "lapsed forget true",
  "pending abandon true",
  "pending claim conflict",
  "pending claim own",
  "pending claim pending",
  "pending complete false",
  "pending complete true",
  "pending forget false",
  "pending read record",
  "pending renew true",
  "released claim new",
  "released forget true",
];

/** The same history with one answer that no store may give. */
function mutants(operations: readonly KeyOperation[], seed: number): readonly (readonly KeyOperation[])[] {
  const draws = seededDraws(seed);
  return MUTATIONS.flatMap(({ isMeant, change }) => {
    const places = operations.flatMap((operation, index) => (isMeant(operation) ? [index] : []));
    if (places.length === 0) return [];
    const place = places[draws.below(places.length)] as number;
    return [
      operations.map((operation, index) =>
        index === place ? { ...operation, answer: change(operation.answer as never) } : operation,
      ),
    ];
  });
}

interface Mutation {
  isMeant(operation: KeyOperation): boolean;
  change(answer: never): KeyAnswer;
}

function isClaimAnswered({ call, answer }: KeyOperation, status: string): boolean {
  return call.kind === "claim" && (answer as { status?: string } | undefined)?.status === status;
}

/** Each is impossible wherever it stands. */
const MUTATIONS: readonly Mutation[] = [
  {
    isMeant: (operation) => isClaimAnswered(operation, "new"),
    change: (answer: { readonly number: number }) => ({ ...answer, number: answer.number + 1_000 }) as never,
  },
  {
    isMeant: (operation) => isClaimAnswered(operation, "new"),
    change: (answer: { readonly fence: number }) => ({ ...answer, fence: 0 }) as never,
  },
  {
    isMeant: (operation) => isClaimAnswered(operation, "completed"),
    change: () => completed("of nobody"),
  },
  {
    isMeant: ({ call, answer }) => call.kind === "read" && answer !== undefined && answer !== null,
    change: (answer: object) => ({ ...answer, token: "of nobody" }) as never,
  },
];
