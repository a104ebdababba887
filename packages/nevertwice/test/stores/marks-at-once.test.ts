/** Tests that many callers mark the same work at the same moment, through two guards: one is told that it was first, none fails. */
import { describe, expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { EVERY_SUBJECT, openSubject } from "../scale/subjects.ts";

const CALLERS = 60;
const ROUNDS = 3;
const BATCHES = 40;
const BATCH_SIZE = 25;
/** Stores without notifications are polled, which takes longer on a busy machine. */
const PATIENCE = { waitMs: 60_000, storeTimeoutMs: 60_000 };
const TIMEOUT = { timeout: 180_000 };

/** Two stores on the same records, like those of two processes. */
type Pair = readonly [name: string, open: (context: TestContext) => Promise<readonly [Store, Store]>];

const PAIRS: readonly Pair[] = [
  [
    "memory",
    async () => {
      const store = memoryStore();
      return [store, store];
    },
  ],
  ...EVERY_SUBJECT.map(({ name, create }): Pair => {
    const open: Pair[1] = async (context) => {
      const url = await create(context);
      return [await openSubject(context, url), await openSubject(context, url)];
    };
    return [name, open];
  }),
];

describe.for(PAIRS)("on %s", ([, open]) => {
  async function twoGuards(context: TestContext): Promise<readonly [Guard, Guard]> {
    const [one, other] = await open(context);
    const guards = [
      createGuard({ store: one, purgeEveryMs: 0, ...PATIENCE }),
      // Marks wait even on a guard that refuses pending work.
      createGuard({ store: other, purgeEveryMs: 0, ...PATIENCE, onPending: "reject" }),
    ] as const;
    context.onTestFinished(async () => void (await Promise.all(guards.map((guard) => guard.close()))));
    return guards;
  }

  test("one of sixty simultaneous marks is first, and the others return false", TIMEOUT, async (context) => {
    const guards = await twoGuards(context);
    for (let round = 0; round < ROUNDS; round++) {
      const event = { operation: "event", key: `evt-${round}` };
      const asked = Array.from({ length: CALLERS }, (_, i) => (guards[i % 2] as Guard).mark(event));
      const answers = await Promise.all(asked);
      expect(answers.filter((isFirst) => isFirst)).toHaveLength(1);
      expect(await guards[0].seen(event)).toBe(true);
    }
  });

  test(
    "forty batches of the same marks in different orders get each first mark once, and none fails",
    TIMEOUT,
    async (context) => {
      const guards = await twoGuards(context);
      const events = Array.from({ length: BATCH_SIZE }, (_, i) => ({ operation: "event", key: `evt-${i}` }));
      const firsts: string[] = [];
      const markAll = async (_: unknown, i: number) => {
        // Each batch starts at another mark, every second one is reversed, and each repeats its first mark at the end.
        const rotated = [...events.slice(i % BATCH_SIZE), ...events.slice(0, i % BATCH_SIZE)];
        const ordered = i % 2 === 0 ? rotated : rotated.reverse();
        const batch = [...ordered, ...ordered.slice(0, 1)];
        const concurrency = i % 3 === 0 ? 1 : 256;
        const answers = await (guards[i % 2] as Guard).markBatch(batch, { concurrency });
        for (const [n, { key }] of batch.entries()) if (answers[n]) firsts.push(key);
      };
      await Promise.all(Array.from({ length: BATCHES }, markAll));
      expect(firsts.toSorted()).toEqual(events.map(({ key }) => key).toSorted());
    },
  );
});
