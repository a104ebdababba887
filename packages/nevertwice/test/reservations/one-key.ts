/** One key, a bounded clock, and everything that can be done in any order: tick, ask, purge. Effects within a window are counted. */
import { digestParameters } from "../../src/reservations/action-request.ts";
import { decide } from "../../src/reservations/decision.ts";
import type { LockedRows } from "../../src/reservations/store.ts";

const WINDOW_MS = 3;
const LAST_TICK = 9;
const RULES = { namespace: "n", windowMs: WINDOW_MS, historyMs: 0, maxDurationMs: 99, available: undefined };
const PARAMETERS = { resource: "ward", requester: "ann", units: 1, durationMs: 50 };

interface State {
  readonly now: number;
  readonly found: LockedRows;
  /** When each hold was placed. */
  readonly effects: readonly number[];
}

/** Every state that can be reached, and those in which two holds lie within one window. `early` is how much too early a key is removed. */
export function searchOneKey(early: number): { readonly states: number; readonly broken: number } {
  const none = new Map();
  const start: State = {
    now: 0,
    found: { keys: none, resources: none, commitments: none, elapsed: none },
    effects: [],
  };
  const seen = new Map([[nameOf(start), start]]);
  // A map goes on to what is added while it is walked through.
  for (const state of seen.values())
    for (const next of [ticked(state), asked(state), purged(state, early)])
      if (next.now <= LAST_TICK && !seen.has(nameOf(next))) seen.set(nameOf(next), next);
  const broken = [...seen.values()].filter(({ effects }) =>
    effects.some((at, i) => i > 0 && at - (effects[i - 1] as number) < WINDOW_MS),
  );
  return { states: seen.size, broken: broken.length };
}

function ticked(state: State): State {
  return { ...state, now: state.now + 1 };
}

function asked({ now, found, effects }: State): State {
  const newId = `c-${effects.length}`;
  const ask = {
    action: "placeHold",
    parameters: PARAMETERS,
    digest: digestParameters("placeHold", PARAMETERS),
  } as const;
  const capacity = { ...ROOMY, ...(found.resources.get("ward") ?? {}) };
  const rows = { ...found, resources: new Map([["ward", capacity]]) };
  const { writes } = decide(
    [{ ...ask, keyId: "k", namespace: "n", scope: "", key: "k", newId, salt: "salt" }],
    rows,
    now,
    RULES,
    "p",
  );
  return {
    now,
    effects: writes.events.some(({ kind }) => kind === "placed") ? [...effects, now] : effects,
    found: {
      ...rows,
      keys: new Map([...rows.keys, ...writes.keys.map((row) => [row.id, row] as const)]),
      resources: new Map([...rows.resources, ...writes.resources.map((row) => [row.name, row] as const)]),
    },
  };
}

function purged(state: State, early: number): State {
  const kept = [...state.found.keys].filter(([, { keptUntil }]) => state.now < keptUntil - early);
  return { ...state, found: { ...state.found, keys: new Map(kept) } };
}

/** Enough for every hold that can be placed. */
const ROOMY = {
  name: "ward",
  capacity: 99,
  taken: 0,
  state: "open",
  isDeclared: true,
  namespace: "n",
  events: 0,
  lastHash: "",
} as const;

function nameOf({ now, found, effects }: State): string {
  return JSON.stringify([now, [...found.keys.values()].map(({ windowEndsAt }) => windowEndsAt), effects]);
}
