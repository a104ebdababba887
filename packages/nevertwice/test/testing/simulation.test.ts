/** The proof that the simulation proves something: it passes the real code and catches every planted bug. Needs the build. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { simulateOnAllCores } from "../../../../scripts/simulation/pool.js";
import { simulate } from "../../src/testing/simulation.ts";
import { plant } from "./plant.ts";
import { PLANTED_BUGS } from "./planted-bugs.ts";

const build = new URL("../../build/", import.meta.url);
const SCHEDULES = 200_000;
/** What a schedule must be able to do for its passing to mean anything, and how often in all. */
const MUST_HAPPEN = [
  "claim new",
  "claim pending",
  "claim completed",
  "claim directly",
  "complete directly",
  "claim conflict",
  "claim unknown",
  "takeover",
  "replay",
  "renewed",
  "completed",
  "clock-went-back",
  "step kept",
  "step lost",
  "claim finds steps",
  "claim shared pending",
  "claim shared completed",
  "claim shared conflict",
  "abandoned released",
  "abandoned unknown",
  "abandoned unrun",
  "answer ran",
  "answer replayed",
  "answer already-done",
  "answer pending",
  "answer conflict",
  "answer unknown",
  "answer unavailable",
  "answer lease-lost",
  "answer thrown",
];

describe("simulate", () => {
  test(`keeps every promise in ${SCHEDULES.toLocaleString("en")} schedules, and says how long they took`, {
    timeout: 900_000,
  }, async () => {
    const startedAt = performance.now();
    const report = await simulateOnAllCores({
      simulation: new URL("testing/simulation.js", build),
      seed: 1,
      schedules: SCHEDULES,
    });
    const seconds = (performance.now() - startedAt) / 1_000;
    console.log(`${report.schedules} schedules, ${report.events} events in ${seconds.toFixed(1)} s`);
    expect(report.failure?.story.join("\n")).toBeUndefined();
    expect(report.schedules).toBe(SCHEDULES);
    for (const what of MUST_HAPPEN) expect(report.counts[what] ?? 0, what).toBeGreaterThan(100);
  });

  test("gives the same schedule for the same seed", async () => {
    const first = await simulate({ seed: 42, schedules: 50 });
    const second = await simulate({ seed: 42, schedules: 50 });
    expect(second).toEqual(first);
  });
});

describe("a planted bug is found, and its seed replays it", () => {
  const folders: string[] = [];
  afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

  test.each(PLANTED_BUGS)("$name", { timeout: 600_000 }, async (bug) => {
    const folder = await plant(bug);
    folders.push(folder);
    const simulation = pathToFileURL(join(folder, "testing/simulation.js"));
    const report = await simulateOnAllCores({ simulation, seed: bug.from ?? 1, schedules: 60_000 });
    const { failure } = report;
    expect(failure, `not found in ${report.schedules} schedules`).toBeDefined();
    const replayed = await simulateOnAllCores({ simulation, seed: failure?.seed ?? 0, schedules: 1 });
    expect(replayed.failure).toEqual(failure);
    console.log(`seed ${failure?.seed}: ${failure?.invariant} ${failure?.what}`);
    const sound = await simulate({ seed: failure?.seed ?? 0 });
    expect(sound.failure).toBeUndefined();
  });
});
