/** Tests random histories against a model that was written from the guarantees alone, and against the twenty-two invariants. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { IS_FULL } from "../scale/sizes.ts";
import { play, type Stage, script, scriptWithTurns, type Tally } from "./histories.ts";
import { OF_COMMITMENTS } from "./invariants.ts";

/** A campaign draws its own seed. A failure prints the seed with the path that replays it. */
const SEED = IS_FULL ? Date.now() : 6;
const RUNS = IS_FULL ? 20_000 : 2_000;
const TIMEOUT_MS = IS_FULL ? 3_600_000 : 180_000;

function memoryStage(): Stage {
  const clock = manualClock();
  return {
    store: memoryReservations({ clock }),
    now: async () => clock.now(),
    advance: async (ms) => clock.advance(ms),
  };
}

describe("any history in memory", () => {
  test(
    "is answered and recorded as the promises say, all twenty-two invariants after every step",
    async () => {
      const tally: Tally = new Map();
      await fc.assert(
        fc.asyncProperty(script, (drawn) => play(memoryStage(), drawn, tally)),
        { numRuns: RUNS, seed: SEED },
      );
      for (const met of EVERY_ANSWER) expect([met, (tally.get(met) ?? 0) > 0]).toEqual([met, true]);
      console.log(`${RUNS} histories, ${tally.get("moments")} moments judged (seed ${SEED})`);
    },
    TIMEOUT_MS,
  );

  test(
    "keeps the invariants of every commitment although the clock is turned back",
    async () => {
      await fc.assert(
        fc.asyncProperty(scriptWithTurns, (drawn) => play(memoryStage(), drawn, new Map(), OF_COMMITMENTS)),
        { numRuns: RUNS / 4, seed: SEED },
      );
    },
    TIMEOUT_MS,
  );
});

/** What the histories must contain, or they prove little. */
const EVERY_ANSWER = [
  ...[
    "ok",
    "invalid-request",
    "token-collision",
    "resource-unavailable",
    "pool-suspended",
    "pool-closed",
  ].map((answer) => `placeHold: ${answer}`),
  ...[
    "ok",
    "invalid-request",
    "token-collision",
    "not-known",
    "not-held",
    "window-elapsed",
    "units-exceeded",
  ].map((answer) => `confirm: ${answer}`),
  ...["ok", "token-collision", "not-known", "not-held"].map((answer) => `release: ${answer}`),
  ...["ok", "token-collision", "not-known", "not-held", "window-not-elapsed"].map(
    (answer) => `expire: ${answer}`,
  ),
  ...["ok", "invalid-request", "not-known", "units-exceeded"].map((answer) => `giveBack: ${answer}`),
  ...["ok", "invalid-request", "units-exceeded"].map((answer) => `declare: ${answer}`),
  ...["ok", "not-known", "pool-closed", "units-exceeded"].map((answer) => `adjust: ${answer}`),
];
