/** Tests that a lost reply is normal over REST too: it settles by the token when the same is asked again, never by guessing. */
import { describe, expect, test } from "vitest";
import { createGuard } from "../../src/index.ts";
import { upstashStore } from "../../src/stores/upstash.ts";
import type { UpstashDoor } from "../services/upstash-door.ts";
import { claimOf, fenceOf } from "./redis/scene.ts";
import { doorFor, upstashClient } from "./upstash/scene.ts";

/** Both after the effect: before the first byte of the reply, and in its middle. */
const LOST = ["reply", "body"] as const;

/** Runs a step whose reply is lost, so it fails, and then repeats the same step. */
async function again<T>(door: UpstashDoor, where: (typeof LOST)[number], step: () => Promise<T>): Promise<T> {
  door.cutNext(where);
  await expect(step()).rejects.toMatchObject({ code: "unavailable", retryable: true });
  return step();
}

describe.for(LOST)("with a cut %s", (where) => {
  test("a repeated claim, renewal, step, completion and erasure gets the answer of the lost one", async (context) => {
    const door = await doorFor(context);
    const store = upstashStore({ client: upstashClient(door) });
    const claim = claimOf("t1");
    await store.claim(claimOf("t0"));

    const granted = await again(door, where, () => store.claim(claim));
    expect(granted).toMatchObject({ status: "new", number: 1, tookOver: false });
    expect(await again(door, where, () => store.renew(claim))).toBe(true);
    const step = { ...claim, name: "paid", outcome: "receipt" };
    expect(await again(door, where, async () => store.keepStep?.(step))).toBe(true);
    expect((await store.read(claim.id))?.steps).toMatchObject([{ name: "paid", outcome: "receipt" }]);
    expect(await again(door, where, () => store.complete({ ...claim, outcome: "done" }))).toBe(true);
    expect(await again(door, where, () => store.claim({ ...claim, token: "t2" }))).toEqual({
      status: "completed",
      outcome: "done",
    });
    const fence = fenceOf(granted);
    expect(await again(door, where, async () => store.forget?.({ id: claim.id, fence }))).toBe(true);
  });

  test.for(["released", "unknown", "unrun"] as const)(
    "a repeated abandon as %s is true",
    async (as, context) => {
      const door = await doorFor(context);
      const store = upstashStore({ client: upstashClient(door) });
      const claim = claimOf("t1");
      await store.claim(claim);
      expect(await again(door, where, () => store.abandon({ ...claim, as }))).toBe(true);
      expect(await store.claim(claim)).toEqual({ status: "pending", leaseLeftMs: 0 });
    },
  );

  test("work runs once and returns its result although every reply is lost once", async (context) => {
    const door = await doorFor(context);
    const guard = createGuard({
      store: upstashStore({ client: upstashClient(door) }),
      namespace: "upstash-tests",
      purgeEveryMs: 0,
    });
    const { key } = claimOf("t").parts;
    let runs = 0;
    door.cutNext(where);
    const work = async () => {
      runs++;
      door.cutNext(where);
      return "done";
    };
    expect(await guard.run({ operation: "o", key }, work)).toBe("done");
    expect(await guard.run({ operation: "o", key }, work)).toBe("done");
    expect(runs).toBe(1);
    await guard.close();
  });
});

test("a request that never arrived changes nothing", async (context) => {
  const door = await doorFor(context);
  const store = upstashStore({ client: upstashClient(door) });
  const claim = claimOf("t1");
  door.cutNext("request");
  await expect(store.claim(claim)).rejects.toMatchObject({ code: "unavailable" });
  expect(await store.read(claim.id)).toBeUndefined();
});

test("the client's own retries get the same answer as the lost one", async (context) => {
  const door = await doorFor(context);
  const store = upstashStore({ client: upstashClient(door, { retry: { retries: 3, backoff: () => 1 } }) });
  const claim = claimOf("t1");
  door.cutNext("reply");
  expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1, tookOver: false });
  door.cutNext("reply");
  expect(await store.complete({ ...claim, outcome: "done" })).toBe(true);
  door.cutNext("reply");
  expect(await store.claim({ ...claim, token: "t2" })).toEqual({ status: "completed", outcome: "done" });
});
