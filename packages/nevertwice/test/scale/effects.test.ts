/**
 * Tests that no effect is lost or happens twice when the processes that run it are killed: at named points and at random, on
 * Postgres, MariaDB and SQLite. The ledger is a table without any constraint and the processes' own notes. Needs the build.
 */
import { rm } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { plant } from "../testing/plant.ts";
import { EFFECT_BUGS } from "./effects-bugs.ts";
import { killMany } from "./effects-kills.ts";
import { EFFECT_SUBJECTS } from "./effects-subjects.ts";
import { count, reportOn, tellCounts } from "./figures.ts";
import { EFFECTS_TIMEOUT_MS, sizeOf } from "./sizes.ts";

const LIBRARY = new URL("../../dist", import.meta.url).pathname;
/** Enough to reach the point of a planted bug. If chance misses it, further rounds are killed at other points. */
const BUG_KILLS = 5;
const BUG_ROUNDS = 6;
/** Enough to outlast the claims of killed processes. With some bugs, no key is ever done. */
const BUG_TRIES = 4;
const SEEDS_APART = 1_000;
const SEED = Number(process.env.NEVERTWICE_SEED ?? 1);

describe.concurrent("an effect happens exactly once, wherever its process is killed", {
  timeout: EFFECTS_TIMEOUT_MS,
}, () => {
  for (const [index, subject] of EFFECT_SUBJECTS.entries())
    test(`${subject.name} on ${subject.database.name}`, async (context) => {
      const { kills } = sizeOf("effects");
      // Each subject is killed at other points first.
      const seed = SEED + index * SEEDS_APART;
      const startedAt = performance.now();
      const killed = await killMany(context, subject, { kills, seed, library: LIBRARY });
      const seconds = (performance.now() - startedAt) / 1_000;
      reportOn(`${subject.name} on ${subject.database.name}`, {
        trial: "Killed processes",
        figures: `${count(killed.kills)} SIGKILLs (${tellCounts(killed.points)}); ${count(killed.keys)} keys, ${killed.problems.length} problems; callers were told ${tellCounts(killed.answers)}; ${count(seconds)} s`,
      });
      expect(killed.problems.slice(0, 20), `seed ${seed}`).toEqual([]);
      expect(killed.kills).toBeGreaterThanOrEqual(kills);
    });
});

describe.concurrent("a planted bug is reported", () => {
  for (const bug of EFFECT_BUGS)
    test(`${bug.subject}: ${bug.name}`, async (context) => {
      const subject = EFFECT_SUBJECTS.find(({ name }) => name === bug.subject);
      if (subject === undefined) throw new Error(`there is no subject ${bug.subject}`);
      const library = await plant(bug);
      context.onTestFinished(() => rm(library, { recursive: true, force: true }));
      const { statements, phases, report } = bug;
      let reports: readonly string[] = [];
      for (let round = 0; round < BUG_ROUNDS && reports.length === 0; round++) {
        const seed = SEED + round * SEEDS_APART;
        const killing = { kills: BUG_KILLS, tries: BUG_TRIES, seed, library, statements, phases };
        const killed = await killMany(context, subject, killing);
        reports = killed.problems.filter((problem) => report.test(problem));
      }
      expect(reports).not.toEqual([]);
    });
});
