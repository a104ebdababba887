/**
 * Tests for a long time that no effect happens twice, nothing acknowledged is lost, and nothing grows, while calls come at a
 * steady rate, something reads for long and the store fails. In every test run it takes seconds, and judges no growth. Needs
 * the build.
 */
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, type TestContext, test } from "vitest";
import { type EnduranceTrial, endure } from "./endurance.ts";
import { missedBars } from "./endurance-judge.ts";
import { ENDURANCE_SUBJECTS, type EnduranceSubject } from "./endurance-subjects.ts";
import { count, report } from "./figures.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject, SQLITE } from "./subjects.ts";

/** Beside the trial itself: its servers start, and all notes are read. */
const STARTED_WITHIN_MS = 600_000;
const MOST_REFUSED = 0.001;

function tellTrial(
  { drifts, ...trial }: EnduranceTrial,
  size: ReturnType<typeof sizeOf<"endurance">>,
): string {
  const { calls, effects, replays, acknowledged, duplicates, lost, readBack, repeatedAfterKill, refused } =
    trial;
  const grown = drifts.map(
    ({ what, second, last, ratio }) => `${what} ${second} and ${last} (${ratio.toFixed(2)})`,
  );
  return (
    `${size.processes} processes made ${count(calls)} calls in ${count(trial.lastedS)} s, with a retention of ` +
    `${count(size.retentionMs / 1_000)} s: ${count(effects)} effects, ${count(replays)} replays, ${count(refused)} calls ` +
    `refused; ${duplicates.length} duplicate effects (and ${repeatedAfterKill} repeated, whose process was killed before ` +
    `it was told), ${lost.length} of ${count(acknowledged)} acknowledged outcomes lost (${count(readBack)} reads); ` +
    `second and last quarter: ${grown.join(", ")}`
  );
}

async function tryEndurance(context: TestContext, subject: EnduranceSubject): Promise<void> {
  const size = sizeOf("endurance");
  const endured = await subject.create(context);
  const store = await openSubject(context, endured.url);
  const trial = await endure(context, { size, endured, store });
  await report(store, {
    trial: "Steady calls, a long reader, and a store that fails",
    figures: `${tellTrial(trial, size)}; in the third quarter ${endured.faults.map(({ name }) => name).join(", then ")}`,
  });
  context.expect(trial.duplicates.slice(0, 20)).toEqual([]);
  context.expect(trial.lost.slice(0, 20)).toEqual([]);
  context.expect(trial.wrongAnswers.slice(0, 20)).toEqual([]);
  context.expect(trial.replays).toBeGreaterThan(0);
  context.expect(trial.readBack).toBeGreaterThan(0);
  // Seconds on a busy machine say nothing about growth.
  if (!IS_FULL) return;
  context.expect(missedBars(trial.drifts)).toEqual([]);
  context
    .expect(trial.refusedShare, "the share of calls that were refused")
    .toBeLessThanOrEqual(MOST_REFUSED);
}

test.skipIf(IS_FULL)(
  "a store that loses its records is reported: effects happen twice, and outcomes are lost",
  async (context) => {
    const size = sizeOf("endurance");
    const url = await SQLITE.create(context);
    const store = await openSubject(context, url);
    const lose = async (): Promise<void> => {
      const database = new DatabaseSync(url.slice("sqlite:".length));
      database.exec("DELETE FROM nevertwice_records");
      database.close();
    };
    const trial = await endure(context, {
      size,
      store,
      endured: {
        url,
        readForLong: async () => () => {},
        faults: [{ name: "all records are lost", strike: lose }],
        size: async () => 0,
      },
    });
    expect(trial.duplicates.length).toBeGreaterThan(0);
    expect(trial.lost.length).toBeGreaterThan(0);
  },
);

describe("for a long time no effect happens twice, nothing is lost, and nothing grows", () => {
  const timeout = sizeOf("endurance").seconds * 1_000 + STARTED_WITHIN_MS;
  for (const subject of ENDURANCE_SUBJECTS)
    (IS_FULL ? test : test.concurrent)(`on ${subject.name}`, { timeout }, (context) =>
      tryEndurance(context, subject),
    );
});
