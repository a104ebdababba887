/** Tests that a key has at most one owner at any time, even if processes that claim it are killed or paused. Needs the build. */
import { describe, expect, type TestContext, test } from "vitest";
import { contend } from "./contention.ts";
import { count, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, REDIS, SLOWER_SUBJECTS, SUBJECTS, type Subject } from "./subjects.ts";

const CRASHES = { killed: 2, paused: 2 };

async function oneOwner(
  context: TestContext,
  subject: Subject,
  size: ReturnType<typeof sizeOf<"one-owner">>,
): Promise<void> {
  const url = await subject.create(context);
  const store = await openSubject(context, url);
  const verdict = await contend(context, { url, ...size, ...CRASHES });
  const { claims, owners, takeovers, refused, seconds, problems } = verdict;
  await report(store, {
    trial: "One owner per key at any time",
    figures: `${size.processes} processes, ${CRASHES.killed} killed and ${CRASHES.paused} paused past their lease: ${count(claims)} claims in ${seconds.toFixed(1)} s, ${count(owners)} owners one after another, ${count(takeovers)} takeovers, ${count(refused)} late steps refused, ${problems.length} broken promises`,
  });
  expect(problems).toEqual([]);
  expect(claims).toBeGreaterThanOrEqual(size.claims * (size.processes - CRASHES.killed));
  expect(takeovers).toBeGreaterThanOrEqual(CRASHES.killed);
  expect(refused).toBeGreaterThan(0);
  expect(verdict.answers.pending ?? 0).toBeGreaterThan(claims / 20);
}

describe("processes that contend for a few keys never own one at the same time, even if some are killed or paused past a lease", () => {
  for (const subject of SUBJECTS)
    test(`on ${subject.name}`, (context) => oneOwner(context, subject, sizeOf("one-owner")));
  for (const subject of SLOWER_SUBJECTS)
    test(`on ${subject.name}`, (context) => oneOwner(context, subject, sizeOf("one-owner-slow")));
});

describe("the referee", () => {
  test("reports a process that pretends to own a pending key", async (context) => {
    const url = await REDIS.create(context);
    await openSubject(context, url);
    const size = { processes: 3, claims: 200, leaseMs: 1_000 };
    const { problems } = await contend(context, { url, ...size, killed: 0, paused: 0, lying: 1 });
    expect(problems.some((problem) => /owned key \d+ \d+ µs before/.test(problem))).toBe(true);
  });
});
