/** Tests many callers of one key in several processes: the work runs once, and all callers soon get its value. Needs the build. */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { count, ms, report } from "./figures.ts";
import { startProcess } from "./processes.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, SUBJECTS } from "./subjects.ts";
import type { Answered } from "./workers/waiter.js";

const SUBJECT = { operation: "wait", key: "the one" };

/** Notes when the outcome was acknowledged, in microseconds of the monotonic clock. */
function timed(store: Store): Store & { completedAt: number } {
  return {
    ...store,
    completedAt: 0,
    async complete(request) {
      const answer = await store.complete(request);
      this.completedAt = Number(process.hrtime.bigint() / 1_000n);
      return answer;
    },
  };
}

describe("all callers that wait for a key get the same outcome, and the last of them soon", () => {
  const { processes, waiters, lastWithinMs } = sizeOf("waiters");
  for (const subject of SUBJECTS)
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      const store = timed(await openSubject(context, url));
      const guard = createGuard({ store, namespace: "scale", purgeEveryMs: 0, storeTimeoutMs: 60_000 });
      let finish = (): void => {};
      const value = { receipt: "r-1", lines: [1, 2, 3] };
      const owner = guard.tryRun(
        SUBJECT,
        () =>
          new Promise((resolve) => {
            finish = () => resolve(value);
          }),
      );
      const options = { url, waiters: waiters / processes, ...SUBJECT };
      const started = Array.from({ length: processes }, () => startProcess(context, "waiter.js", options));
      await Promise.all(started.map(({ next }) => next("waiting")));
      finish();
      const answers = await Promise.all(started.map(({ next }) => next<Answered>("answered")));
      await Promise.all(started.map(({ ended }) => ended));

      expect(await owner).toEqual({ status: "ran", value, recorded: true });
      const lastMs = (Math.max(...answers.map(({ lastAt }) => lastAt)) - store.completedAt) / 1_000;
      await report(store, {
        trial: "Every waiting caller gets the answer",
        figures: `${count(waiters)} callers in ${processes} processes wait for one key: one run, one value, the last answered ${ms(lastMs)} after the outcome was acknowledged`,
      });
      for (const { runs, statuses, values } of answers) {
        expect(runs).toBe(0);
        expect(statuses).toEqual({ replayed: waiters / processes });
        expect(values).toEqual([JSON.stringify(value)]);
      }
      expect(lastMs).toBeLessThan(lastWithinMs);
      await guard.close();
    });
});
