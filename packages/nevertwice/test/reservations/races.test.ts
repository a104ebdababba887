/** Tests confirm, release and expire of one hold at one millisecond. */
import { expect, test } from "vitest";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { IS_FULL } from "../scale/sizes.ts";
import { race } from "./races.ts";

const RACES = IS_FULL ? 10_000 : 1_000;

test(`${RACES} holds that are confirmed, released and expired in the same millisecond end once each, in memory`, async () => {
  const clock = manualClock();
  const stage = {
    store: memoryReservations({ clock }),
    now: async () => clock.now(),
    advance: async (ms: number) => clock.advance(ms),
  };
  const won = await race(stage, RACES);
  console.log(`${RACES} races in memory: ${JSON.stringify(won)}`);
  expect(won.confirmed + won.released + won.expired).toBe(RACES);
  expect(Math.min(won.confirmed, won.released, won.expired)).toBeGreaterThan(0);
}, 600_000);
