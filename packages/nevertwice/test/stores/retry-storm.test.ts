/**
 * Tests the retry storm: a thousand operations whose work fails three times in ten, retried by a policy, with duplicates of each
 * arriving meanwhile at two guards. Each is done once, and all its callers hold the same receipt.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ConsecutiveBreaker, ConstantBackoff, circuitBreaker, handleAll, retry, wrap } from "cockatiel";
import { expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { tryProtect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { etcdPair } from "./etcd/stores.ts";
import { type Pair, postgresPair, redisPair } from "./shared/scene.ts";

const OPERATIONS = 1_000;
const RETRIES = 4;
const FAILURES = 0.3;
const CALLERS = 3;
/** How many operations run at a time. */
const ABREAST = 50;

const PAIRS: Readonly<Record<string, Pair>> = {
  async memory() {
    const store = memoryStore();
    return [store, store];
  },
  Redis: redisPair,
  Postgres: postgresPair,
  etcd: async (context) => etcdPair(context),
};

for (const [name, pair] of Object.entries(PAIRS)) {
  test(`on ${name} every operation runs once, and an open breaker blocks no replay`, {
    timeout: 60_000,
  }, async (context) => {
    const guards = (await pair(context)).map((store) =>
      createGuard({ store, purgeEveryMs: 0, namespace: "storm" }),
    );
    context.onTestFinished(async () => void (await Promise.all(guards.map((guard) => guard.close()))));
    const pauses = seededRandom(7);
    // Each operation has its own random failures, so that they are the same in every run.
    const draws = Array.from({ length: OPERATIONS }, (_, operation) => seededRandom(operation));
    const breaker = circuitBreaker(handleAll, {
      halfOpenAfter: 600_000,
      breaker: new ConsecutiveBreaker(1_000),
    });
    const policy = wrap(retry(handleAll, { maxAttempts: RETRIES, backoff: new ConstantBackoff(0) }), breaker);
    const done = new Map<number, number>();
    const seen = { failures: 0, mostAttempts: 0, replayed: 0 };

    /** One call for one operation, from either guard. */
    const call = (operation: number, caller: number) =>
      tryProtect(
        guards[caller % guards.length] as (typeof guards)[number],
        { operation: "charge", key: "id", context: { id: operation }, policy, waitMs: 30_000 },
        async () => {
          await sleep(pauses.between(0, 2));
          if (draws[operation]?.chance(FAILURES)) {
            seen.failures++;
            throw new Error("the provider is down");
          }
          done.set(operation, (done.get(operation) ?? 0) + 1);
          return `receipt ${operation}-${done.get(operation)}`;
        },
      );

    /** A caller that retries until it has a receipt. */
    async function insist(operation: number, caller: number): Promise<string> {
      await sleep(caller === 0 ? 0 : pauses.between(0, 5));
      for (;;) {
        const answer = await call(operation, caller);
        seen.mostAttempts = Math.max(seen.mostAttempts, answer.attempts);
        if (answer.outcome === "replayed") seen.replayed++;
        if (answer.outcome === "ran" || answer.outcome === "replayed") return answer.value;
        expect(answer.outcome).toBe("failed");
      }
    }

    const receipts = new Map<number, readonly string[]>();
    let next = 0;
    async function lane(): Promise<void> {
      for (let operation = next++; operation < OPERATIONS; operation = next++) {
        const callers = Array.from({ length: CALLERS }, (_, caller) => insist(operation, caller));
        receipts.set(operation, await Promise.all(callers));
      }
    }
    await Promise.all(Array.from({ length: ABREAST }, lane));

    for (let operation = 0; operation < OPERATIONS; operation++) {
      const expected = Array.from({ length: CALLERS }, () => `receipt ${operation}-1`);
      expect([done.get(operation), receipts.get(operation)]).toEqual([1, expected]);
    }
    // It was a storm: the policy used all its retries, and most callers were duplicates.
    expect(seen.failures).toBeGreaterThan(OPERATIONS / 4);
    expect(seen.mostAttempts).toBe(1 + RETRIES);
    expect(seen.replayed).toBe(OPERATIONS * (CALLERS - 1));

    breaker.isolate();
    const again = await Promise.all(Array.from({ length: OPERATIONS }, (_, operation) => call(operation, 1)));
    expect(new Set(again.map(({ outcome, attempts }) => `${outcome} ${attempts}`))).toEqual(
      new Set(["replayed 0"]),
    );
    expect(done.size).toBe(OPERATIONS);
  });
}
