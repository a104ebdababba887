/** Tests how many calls may be under way, by how long writes take. */
import { afterEach, expect, test, vi } from "vitest";
import { createBatch } from "../../src/stores/batch.ts";
import { createRoom } from "../../src/stores/flight-room.ts";

const NEAR = { maxCalls: 4, maxFlights: 2 };
const FAR = { maxCalls: 8, maxFlights: 5 };

afterEach(() => void vi.useRealTimers());

test("a store that is near has the usual limits, whatever is queued", () => {
  const room = createRoom(NEAR, FAR);
  for (let write = 0; write < 100; write++) room.landed(2);
  expect([0, 1, 2, 3].map((flights) => room.callsFor(1_000, flights))).toEqual([4, 4, 0, 0]);
});

test("a store whose last eight writes took long gets more and larger writes, but no more small ones", () => {
  const room = createRoom(NEAR, FAR);
  for (let write = 0; write < 7; write++) room.landed(80);
  expect(room.callsFor(1_000, 2)).toBe(0);
  room.landed(80);
  expect([0, 1, 2, 3, 4, 5].map((flights) => room.callsFor(1_000, flights))).toEqual([8, 8, 8, 8, 8, 0]);
  expect([0, 1, 2, 3].map((flights) => room.callsFor(3, flights))).toEqual([8, 8, 0, 0]);
});

test("one quick write ends it", () => {
  const room = createRoom(NEAR, FAR);
  for (let write = 0; write < 20; write++) room.landed(80);
  room.landed(2);
  expect(room.callsFor(1_000, 2)).toBe(0);
});

test("without limits for a store that is far, nothing changes", () => {
  const room = createRoom(NEAR);
  for (let write = 0; write < 20; write++) room.landed(80);
  expect(room.callsFor(1_000, 2)).toBe(0);
});

/** Takes 5,000 calls of 400 callers through a batch whose writes take `ms`, and returns the time that passed. */
async function timeOf(ms: number, limits: { far?: typeof FAR }): Promise<number> {
  vi.useFakeTimers();
  const startedAt = performance.now();
  const batch = createBatch<number, number>({
    maxCalls: 32,
    maxFlights: 2,
    stuckMs: Number.POSITIVE_INFINITY,
    send: (calls) => new Promise((resolve) => setTimeout(() => resolve(calls), ms)),
    alone: async (call) => call,
    ...limits,
  });
  let next = 0;
  const caller = async () => {
    while (next < 5_000) await batch.run(next++);
  };
  const done = Promise.all(Array.from({ length: 400 }, caller));
  await vi.runAllTimersAsync();
  await done;
  return performance.now() - startedAt;
}

test("a store at a distance of 80 ms answers as many calls as are asked for", async () => {
  // 64 calls every 80 ms.
  expect(await timeOf(80, {})).toBeGreaterThan(6_000);
  expect(await timeOf(80, { far: { maxCalls: 32, maxFlights: 16 } })).toBeLessThan(2_000);
  expect(await timeOf(80, { far: { maxCalls: 128, maxFlights: 4 } })).toBeLessThan(2_000);
});

test("a store that is near takes the same time with either limits", async () => {
  const without = await timeOf(2, {});
  expect(await timeOf(2, { far: { maxCalls: 128, maxFlights: 16 } })).toBe(without);
});
