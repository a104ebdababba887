/**
 * Tests that no effect is lost or happens twice when the processes that run it are killed: at named points and at random, on
 * Postgres, MariaDB and SQLite. The ledger is a table without any constraint and the processes' own notes. Needs the build.
 */
import { describe, expect, test } from "vitest";
import { killMany } from "./effects-kills.ts";
import { EFFECT_SUBJECTS } from "./effects-subjects.ts";
import { count, reportOn, tellCounts } from "./figures.ts";
import { sizeOf } from "./sizes.ts";

const LIBRARY = new URL("../../dist", import.meta.url).pathname;
const SEED = Number(process.env.NEVERTWICE_SEED ?? 1);

describe.concurrent("an effect happens exactly once, wherever its process is killed", () => {
  for (const subject of EFFECT_SUBJECTS)
    test(`${subject.name} on ${subject.database.name}`, async (context) => {
      const { kills } = sizeOf("effects");
      const startedAt = performance.now();
      const killed = await killMany(context, subject, { kills, seed: SEED, library: LIBRARY });
      const seconds = (performance.now() - startedAt) / 1_000;
      reportOn(`${subject.name} on ${subject.database.name}`, {
        trial: "Killed processes",
        figures: `${count(killed.kills)} SIGKILLs (${tellCounts(killed.points)}); ${count(killed.keys)} keys, ${killed.problems.length} problems; callers were told ${tellCounts(killed.answers)}; ${count(seconds)} s`,
      });
      expect(killed.problems.slice(0, 20), `seed ${SEED}`).toEqual([]);
      expect(killed.kills).toBeGreaterThanOrEqual(kills);
    });
});
