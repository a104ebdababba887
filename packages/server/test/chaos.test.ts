/**
 * Tests three servers on one store, many clients, and a server killed and started again every two seconds: each key has
 * one effect, a kill explains every second run, and clients get only answers or requests to retry.
 */
import { setTimeout } from "node:timers/promises";
import { describe, expect, type TestContext, test } from "vitest";
import { count, report, tellCounts } from "../../nevertwice/test/scale/figures.ts";
import { IS_FULL } from "../../nevertwice/test/scale/sizes.ts";
import { EVERY_SUBJECT, openSubject } from "../../nevertwice/test/scale/subjects.ts";
import { runClients } from "./chaos/clients.ts";
import { judge, type Notes, type Story, type Try } from "./chaos/referee.ts";
import { startCopies } from "./chaos/servers.ts";
import { startService } from "./chaos/service.ts";

const SUBJECTS = EVERY_SUBJECT.filter(({ name }) => ["Postgres", "Redis Cluster"].includes(name));
const DURATION_MS = IS_FULL ? 60_000 : 8_000;
const KILL_EVERY_MS = 2_000;
const CLIENTS = IS_FULL ? 200 : 40;
/** Much longer than a busy machine delays a renewal, so that only a kill ends a lease. */
const LEASE_MS = 8_000;
const PATIENCE_MS = 90_000;

interface Trial {
  store(index: number): string;
  readonly durationMs: number;
  readonly clients: number;
  readonly hasKills: boolean;
}

async function runTrial(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  { store, durationMs, clients, hasKills }: Trial,
): Promise<Notes> {
  const service = startService(() => 20 + Math.random() * 80);
  onTestFinished(() => service.close());
  const copies = await startCopies({ count: 3, store, leaseMs: LEASE_MS, upstream: service.address });
  onTestFinished(() => copies.end());
  const { urls, kills, restart } = copies;
  const load = runClients({ urls, count: clients, durationMs, patienceMs: PATIENCE_MS });
  const restarts: Promise<void>[] = [];
  for (let index = 0; hasKills && index * KILL_EVERY_MS < durationMs; index++) {
    await setTimeout(KILL_EVERY_MS);
    restarts.push(restart(index % urls.length));
  }
  const stories = await load;
  await Promise.all(restarts);
  expect(copies.crashes).toEqual([]);
  return { stories, tries: service.tries, kills };
}

describe("three servers", { concurrent: !IS_FULL, timeout: 300_000 }, () => {
  test.for(SUBJECTS)(
    "a key has one effect on $name, however often servers are killed",
    async ({ create }, context) => {
      const url = await create(context);
      const notes = await runTrial(context, {
        store: () => url,
        durationMs: DURATION_MS,
        clients: CLIENTS,
        hasKills: true,
      });
      const { problems, keys, repeats, refusals } = judge(notes);
      expect(problems.slice(0, 10)).toEqual([]);
      // A trial in which nothing happened proves nothing.
      expect(keys).toBeGreaterThanOrEqual(CLIENTS);
      expect(repeats).toBeGreaterThan(0);
      expect(notes.kills.length).toBeGreaterThanOrEqual(DURATION_MS / KILL_EVERY_MS - 1);
      await report(await openSubject(context, url), {
        trial: "Three servers, two hundred clients, a kill every two seconds",
        figures: `${count(keys)} keys, some of them sent by a double click (${count(notes.stories.length)} clicks), ${notes.kills.length} kills, ${count(repeats)} second tries, each explained by a kill, one effect for each key, an answer for every click; before it clients got: ${tellCounts(refusals)}`,
      });
    },
  );

  test("the test fails for servers that do not share a store", async (context) => {
    const notes = await runTrial(context, {
      store: () => "memory:",
      durationMs: 2_000,
      clients: 20,
      hasKills: false,
    });
    expect(judge(notes).problems).toContainEqual(expect.stringMatching(/was tried again by .*, and no kill/));
  });
});

describe("the referee", () => {
  const first: Try = { key: "k", by: "0.1", at: 10, fence: 1, effect: 1 };
  const story: Story = { key: "k", refusals: [], answer: { status: 201, effect: 1, at: 50 } };
  const refusal = { status: 503, type: "application/problem+json", code: "unavailable", retryAfter: "1" };
  const judged = (notes: Partial<Notes>) =>
    judge({ stories: [story], tries: [first], kills: [], ...notes }).problems;
  const told = (more: object) => judged({ stories: [{ ...story, refusals: [{ ...refusal, ...more }] }] });

  test("finds no problem in a correct run", () => {
    const again = { ...first, by: "1.1", at: 30, fence: 2 };
    expect(judged({})).toEqual([]);
    expect(judged({ tries: [first, again], kills: [{ server: "0.1", at: 20 }] })).toEqual([]);
    expect(told({})).toEqual([]);
    expect(told({ status: 409, code: "pending" })).toEqual([]);
    expect(told({ status: 0 })).toEqual([]);
  });

  test.each([
    ["a client without an answer", { stories: [{ ...story, answer: undefined }] }, "k was never answered"],
    [
      "an answer that is no answer",
      { stories: [{ ...story, answer: { status: 200, effect: 1, at: 50 } }] },
      "k was answered with 200",
    ],
    ["two effects", { tries: [first, { ...first, fence: 2, effect: 2 }] }, "k had 2 effects"],
    [
      "an answer of another key",
      { stories: [{ ...story, answer: { status: 201, effect: 7, at: 50 } }] },
      "k was answered with the effect of another key",
    ],
    [
      "a second try without a kill",
      { tries: [first, { ...first, by: "1.1", at: 30, fence: 2 }] },
      "k was tried again by 1.1, and no kill of 0.1 explains it",
    ],
    [
      "a second try before the kill",
      { tries: [first, { ...first, by: "1.1", at: 30, fence: 2 }], kills: [{ server: "0.1", at: 40 }] },
      "k was tried again by 1.1, and no kill of 0.1 explains it",
    ],
    [
      "a second try after the kill of another start",
      { tries: [first, { ...first, by: "1.1", at: 30, fence: 2 }], kills: [{ server: "0.2", at: 20 }] },
      "k was tried again by 1.1, and no kill of 0.1 explains it",
    ],
    [
      "a second try of what was answered long before the kill",
      {
        tries: [first, { ...first, by: "1.1", at: 9_000, fence: 2 }],
        kills: [{ server: "0.1", at: 8_000 }],
      },
      "k was tried again by 1.1, and no kill of 0.1 explains it",
    ],
    [
      "a fence that two tries had",
      { tries: [first, { ...first, by: "1.1", at: 30 }], kills: [{ server: "0.1", at: 20 }] },
      "k was tried twice with the fence 1",
    ],
  ])("finds %s", (_, notes, problem) => {
    expect(judged(notes)).toContain(problem);
  });

  test.each([
    [
      { status: 500, code: "internal-error" },
      "a client was told 500 internal-error as application/problem+json",
    ],
    [{ status: 502, type: "text/html", code: "none" }, "a client was told 502 none as text/html"],
    [{ status: 503, code: "store-full" }, "a client was told 503 store-full as application/problem+json"],
    [
      { status: 409, code: "pending", retryAfter: undefined },
      "409 pending as application/problem+json says not when to come back",
    ],
  ])("does not let %o pass", (more, problem) => {
    expect(told(more)).toEqual([problem]);
  });
});
