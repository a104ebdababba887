/** Tests how long a scope with few calls waits beside another one with thousands of callers in the same process. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";
import { count, medianOf, ms, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { openSubject, SUBJECTS } from "./subjects.ts";

const PAUSE_MS = 2;

/** Claims and completes a fresh key. Without `expect`, which takes longer than the calls. */
async function callOnce(store: Store, scope: string): Promise<void> {
  const parts = { namespace: "fairness", scope, operation: "load", key: randomUUID() };
  const { id } = toIdentity(parts);
  const token = randomUUID();
  const { status } = await store.claim({
    ...{ id, parts, token, leaseMs: 30_000, retentionMs: 60_000, hold: false },
  });
  if (status !== "new") throw new Error(`a fresh key was answered ${status}`);
  await store.complete({ id, token, outcome: "done", retentionMs: 60_000 });
}

/** The medians of what a call of the scope with few calls took, and of how many calls of the other scope ended meanwhile. */
async function measure(store: Store, { calls, others }: { calls: number; others: () => number }) {
  const took: number[] = [];
  const meanwhile: number[] = [];
  for (let call = 0; call < calls; call++) {
    const [startedAt, othersBefore] = [performance.now(), others()];
    await callOnce(store, "few calls");
    took.push(performance.now() - startedAt);
    meanwhile.push(others() - othersBefore);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return { ms: medianOf(took), meanwhile: medianOf(meanwhile) };
}

test.for(SUBJECTS)(
  "on $name a scope does not wait behind the callers of another one",
  async (subject, context) => {
    const { callers, calls } = sizeOf("fairness");
    const store = await openSubject(context, await subject.create(context));
    let ended = 0;
    const others = () => ended;
    await measure(store, { calls, others });
    const quiet = await measure(store, { calls, others });
    let isOver = false;
    async function callUntilOver(): Promise<void> {
      while (!isOver) {
        await callOnce(store, "many callers");
        ended++;
      }
    }
    const many = Promise.all(Array.from({ length: callers }, callUntilOver));
    await measure(store, { calls: 3, others });
    const busy = await measure(store, { calls, others });
    isOver = true;
    await many;
    await report(store, {
      trial: "A scope with few calls beside one with many",
      figures: `${ms(busy.ms)} for a claim and its completion beside ${count(callers)} callers of another scope, of whose calls ${count(busy.meanwhile)} ended meanwhile; ${ms(quiet.ms)} alone (medians)`,
    });
    // Behind all of their claims it would wait until every one of them has been answered.
    expect(busy.meanwhile).toBeLessThan(callers / 2);
  },
);
