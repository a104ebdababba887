/** Tests the page from which the campaign of the simulation knows where it was stopped. */
import { expect, test } from "vitest";
import { nextSeed, partsOf, schedulesOf, simulationPage, withPart } from "../campaign/simulation-page.js";

const OLD = {
  engine: "aaaaaaaaaaaa",
  commit: "11111111",
  firstSeed: 1,
  lastSeed: 500_000,
  events: 9_000_001,
};
const NOW = {
  engine: "bbbbbbbbbbbb",
  commit: "22222222",
  firstSeed: 1,
  lastSeed: 100_000,
  events: 1_800_000,
};
const NEXT = { ...NOW, firstSeed: 100_001, lastSeed: 150_000, events: 900_000 };
const OF_NOW = { engine: NOW.engine, platform: "Node 20" };

test("reads the parts that it wrote", () => {
  expect(partsOf(simulationPage([OLD, NOW], OF_NOW))).toEqual([OLD, NOW]);
});

test("the page of another subject names it, and is read in the same way", () => {
  const page = simulationPage([NOW], { ...OF_NOW, subject: "etcd" });
  expect(page).toContain("npm run campaign -- simulation --store etcd --seed S --schedules 1");
  expect(partsOf(page)).toEqual([NOW]);
});

test("the page of the doors has their command", () => {
  const page = simulationPage([NOW], { ...OF_NOW, subject: "doors" });
  expect(page).toContain("npm run campaign -- simulation --doors --seed S --schedules 1");
  expect(partsOf(page)).toEqual([NOW]);
});

test("a part that follows the last one becomes part of its row", () => {
  const both = { ...NOW, lastSeed: 150_000, events: 2_700_000 };
  expect(withPart([OLD, NOW], NEXT)).toEqual([OLD, both]);
});

test("a part of another commit, or after a gap, has a row of its own", () => {
  const later = { ...NEXT, commit: "33333333" };
  const afterGap = { ...NEXT, firstSeed: 100_002 };
  expect(withPart([NOW], later)).toEqual([NOW, later]);
  expect(withPart([NOW], afterGap)).toEqual([NOW, afterGap]);
});

test("the schedules of another engine do not count", () => {
  expect(schedulesOf([OLD, NOW, NEXT], NOW.engine)).toBe(150_000);
  expect(simulationPage([OLD, NOW, NEXT], OF_NOW)).toContain("**150,000 schedules, 0 broken promises**");
});

test("goes on after the last seed of the same engine", () => {
  expect(nextSeed([OLD, NOW], NOW.engine)).toBe(100_001);
  expect(nextSeed([OLD], NOW.engine)).toBe(1);
  expect(nextSeed([], NOW.engine)).toBe(1);
});
