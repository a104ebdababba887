/** Tests that keys whose work ends at the same moment are all recorded, however many one process has. */
import { expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { deferred, gate } from "../deferred.ts";
import { count, ms, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, SLOWER_SUBJECTS, SUBJECTS } from "./subjects.ts";

const [REDIS_CLUSTER] = SLOWER_SUBJECTS;

test.for([...SUBJECTS, REDIS_CLUSTER])(
  "on $name keys whose work ends at the same moment are all recorded",
  async (subject, context) => {
    const { keys, rounds, mostUnrecorded } = sizeOf("settling-crowd");
    const store = await openSubject(context, await subject.create(context));
    const guard = createGuard({ store });
    const requestOf = (round: number, key: number) => ({ operation: "settle", key: `${round}-${key}` });
    let unrecorded = 0;
    let longest = 0;
    for (let round = 0; round < rounds; round++) {
      const work = gate();
      const everyoneRuns = deferred();
      let running = 0;
      const ends = Array.from({ length: keys }, (_, key) =>
        guard.tryRun(requestOf(round, key), async () => {
          if (++running === keys) everyoneRuns.resolve();
          await work.opened;
          return key;
        }),
      );
      await Promise.race([everyoneRuns.promise, Promise.all(ends)]);
      const endedAt = performance.now();
      work.open();
      const results = await Promise.all(ends);
      longest = Math.max(longest, performance.now() - endedAt);
      expect(results.map(({ status }) => status)).toEqual(results.map(() => "ran"));
      unrecorded += results.filter((result) => result.status === "ran" && !result.recorded).length;
    }
    await report(store, {
      trial: "Keys that settle at once",
      figures: `${count(keys)} keys, ${rounds} times: ${count(unrecorded)} not recorded while their callers waited, the last one after ${ms(longest)}`,
    });
    expect(unrecorded).toBeLessThanOrEqual(mostUnrecorded);
    // What was not recorded in time is recorded in the background: no duplicate runs the work again.
    await guard.close();
    const again = createGuard({ store });
    const replays = await Promise.all(
      Array.from({ length: keys }, (_, key) => again.run(requestOf(rounds - 1, key), () => "ran again")),
    );
    expect(replays).toEqual(replays.map((_, key) => key));
    await again.close();
  },
);
