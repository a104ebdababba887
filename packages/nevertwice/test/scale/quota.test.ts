/** Tests the quota of the HTTP layer over several processes that share only the store. Needs the build. */
import { describe, expect, type TestContext, test } from "vitest";
import { startProcess } from "./processes.ts";
import { openSubject, POSTGRES, REDIS } from "./subjects.ts";
import type { Answered } from "./workers/quota.js";

const PROCESSES = 5;
const QUOTA = 320;
/** How many keys one process takes from the quota at a time. */
const BLOCK = 5;
const KEYS = 800;

/** Lets each process serve every fifth key, all at once. */
async function flood(context: TestContext, url: string, quota: number): Promise<readonly Answered[]> {
  const started = Array.from({ length: PROCESSES }, (_, place) => {
    const keys = Array.from({ length: KEYS / PROCESSES }, (_, i) => `key-${i * PROCESSES + place}`);
    return startProcess(context, "quota.js", { url, quota, keys });
  });
  await Promise.all(started.map(({ next }) => next("ready")));
  for (const { tell } of started) tell("begin");
  return Promise.all(started.map(({ next }) => next<Answered>("answered")));
}

const total = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0);

describe("five processes together accept at most the quota, and at least the quota minus one block per process", () => {
  for (const subject of [REDIS, POSTGRES])
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      await openSubject(context, url);
      const answers = await flood(context, url, QUOTA);
      const through = total(answers.map(({ runs }) => runs));
      expect(through).toBeLessThanOrEqual(QUOTA);
      expect(through).toBeGreaterThanOrEqual(QUOTA - PROCESSES * BLOCK);
      expect(total(answers.map(({ counts }) => counts[201] ?? 0))).toBe(through);
      expect(total(answers.map(({ counts }) => counts[429] ?? 0))).toBe(KEYS - through);
    });
});

test("processes whose quota is not shared accept more keys, so the test above can fail", async (context) => {
  const urls = await Promise.all(Array.from({ length: PROCESSES }, () => REDIS.create(context)));
  const answers = await Promise.all(
    urls.map(async (url) => {
      await openSubject(context, url);
      const keys = Array.from({ length: KEYS / PROCESSES }, (_, i) => `key-${i}`);
      const { next, tell } = startProcess(context, "quota.js", { url, quota: QUOTA, keys });
      await next("ready");
      tell("begin");
      return next<Answered>("answered");
    }),
  );
  expect(total(answers.map(({ runs }) => runs))).toBe(KEYS);
});
