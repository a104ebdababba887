/** Tests every state of a small model with a crash after every step: no guarantee is broken, and broken variants are found. */
import { describe, expect, test } from "vitest";
import { IS_FULL } from "../scale/sizes.ts";
import { type Mistake, search } from "./exhaustive.ts";
import type { Op, Part, State, World } from "./exhaustive-world.ts";

const TIMEOUT_MS = IS_FULL ? 3_600_000 : 120_000;
/** How many states of each world are searched, breadth first. */
const MOST = IS_FULL ? 500_000 : 40_000;
const KEYS = ["k1", "k2"];
const RULES = { namespace: "n", windowMs: 2, historyMs: 0, maxDurationMs: 9, available: undefined };

function op(...parts: Part[]): Op {
  const texts = parts.map(
    ({ key, action, parameters }) => `${action}(${Object.values(parameters).join(", ")}) by ${key}`,
  );
  return { label: texts.join(" with "), parts };
}

function place(key: string, resource: string, units: number, requester: string): Part {
  return { key, action: "placeHold", parameters: { resource, requester, units, durationMs: 1 } };
}

function on(key: string, action: Part["action"], id: string, units?: number): Part {
  return { key, action, parameters: units === undefined ? { id } : { id, units } };
}

/** Two resources of one unit: two clients act on one of them at the same time, with one key or two. */
const TWO_THINGS: World = {
  name: "two resources of capacity 1",
  clients: 2,
  rules: RULES,
  lastTick: IS_FULL ? 4 : 3,
  maxCommitments: 2,
  capacities: { bed: 1, seat: 1 },
  opsOf(client, { commitments }) {
    const requester = ["ann", "ben"][client] as string;
    const resource = ["bed", "seat"][client] as string;
    const ids = [...commitments.keys()];
    const places = commitments.size < 2 ? KEYS.map((key) => op(place(key, resource, 1, requester))) : [];
    const ends = ids.flatMap((id) =>
      KEYS.flatMap((key) => [
        op(on(key, "confirm", id)),
        op(on(key, "release", id)),
        op(on(key, "expire", id)),
      ]),
    );
    return [...places, ...ends];
  },
};

/** One resource of two units: holds of one and two units, partial confirms, give-backs, and two actions in one transaction. */
const ONE_POOL: World = {
  name: "one resource of capacity 2",
  clients: 2,
  rules: RULES,
  lastTick: IS_FULL ? 4 : 3,
  maxCommitments: IS_FULL ? 3 : 2,
  capacities: { stock: 2 },
  opsOf(client, state) {
    const requester = ["ann", "ben"][client] as string;
    const [k1, k2] = KEYS as [string, string];
    return client === 0
      ? [...placing(state, ONE_POOL, requester), ...ending(state, k1)]
      : [...ending(state, k2), ...grouped(state, k1, k2)];
  },
};

function placing({ commitments }: State, { maxCommitments }: World, requester: string): Op[] {
  if (commitments.size >= maxCommitments) return [];
  return KEYS.flatMap((key, index) => [op(place(key, "stock", index + 1, requester))]);
}

function ending({ commitments }: State, key: string): Op[] {
  return [...commitments.keys()].flatMap((id) => [
    op(on(key, "confirm", id)),
    op(on(key, "confirm", id, 1)),
    op(on(key, "release", id)),
    op(on(key, "expire", id)),
    op(on(key, "giveBack", id)),
    op(on(key, "giveBack", id, 1)),
  ]);
}

function grouped({ commitments }: State, k1: string, k2: string): Op[] {
  const room = ONE_POOL.maxCommitments - commitments.size;
  const places = [place(k1, "stock", 1, "ben"), place(k2, "stock", 1, "ben")] as const;
  return [
    ...(room > 0 ? [op(places[0]), op(places[0], places[0])] : []),
    ...(room > 1 ? [op(...places)] : []),
    ...[...commitments.keys()].flatMap((id) => [
      op(on(k1, "confirm", id), on(k2, "expire", id)),
      op(on(k1, "release", id), on(k1, "release", id)),
      ...(room > 0 ? [op(on(k1, "expire", id), places[1])] : []),
    ]),
  ];
}

/** One client and one key: small enough to be searched completely. */
const ALONE: World = {
  ...ONE_POOL,
  name: "one client with one key",
  clients: 1,
  lastTick: 5,
  maxCommitments: 2,
  opsOf: (_, state) => [op(place("k1", "stock", 2, "ann")), ...ending(state, "k1")],
};

describe("every state of a small world", () => {
  for (const world of [TWO_THINGS, ONE_POOL])
    test(
      `with ${world.name}: no crash, no order and no tick breaks a promise`,
      () => {
        const { states, steps, crashes, depth, wrong } = search(world, { most: MOST });
        const [seen, taken, crashed] = [states, steps, crashes].map((number) => number.toLocaleString("en"));
        console.log(
          `${world.name}: ${seen} states, all that ${depth} steps lead to; ${taken} steps, ${crashed} crashes`,
        );
        expect(wrong).toBeUndefined();
        expect(states).toBeGreaterThanOrEqual(MOST);
      },
      TIMEOUT_MS,
    );

  test(
    "with one client, searched completely: no crash and no tick breaks a promise",
    () => {
      const { states, steps, crashes, depth, isComplete, wrong } = search(ALONE, { most: 200_000 });
      console.log(
        `${ALONE.name}: ${states} states, all there are; ${steps} steps, ${crashes} crashes, ${depth} deep`,
      );
      expect(wrong).toBeUndefined();
      expect(isComplete).toBe(true);
    },
    TIMEOUT_MS,
  );
});

describe("the search finds the mistake that", () => {
  const FOUND: readonly (readonly [Mistake, World, RegExp])[] = [
    ["a key's answer is removed a tick before its window ends", TWO_THINGS, /the answer of k1 is gone/],
    ["confirm ignores the clock", TWO_THINGS, /confirmed at 1, and was over at 1/],
    ["an expired hold can expire again", TWO_THINGS, /cannot give back|was expired when it was expired/],
    ["the answer is written after the transaction", TWO_THINGS, /second effect|answered in two ways/],
    ["the clock is read before the locks are taken", TWO_THINGS, /when the clock said/],
    [
      "nothing is locked",
      TWO_THINGS,
      /second effect|was let through|are taken|when it was|answered in two ways/,
    ],
  ];
  for (const [mistake, world, what] of FOUND)
    test(
      mistake,
      () => {
        const { wrong } = search(world, { most: 1_000_000, mistake });
        expect(wrong?.what).toMatch(what);
      },
      TIMEOUT_MS,
    );
});
