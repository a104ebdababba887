/**
 * Tests stores whose clock jumps by a minute while attempts with short leases run. That clock decides when leases end, so after a
 * jump ahead every lease looks lapsed until its next renewal. The tests check which guarantees still hold.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, type TestContext, test, vi } from "vitest";
import type { GuardEvent } from "../../src/core/observer.ts";
import type { PolicyOptions } from "../../src/core/policy.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { NotInstalled } from "../services/packages.ts";
import { startPostgres } from "../services/postgres.ts";
import { startRedis } from "../services/redis.ts";
import type { Server } from "../services/server.ts";
import { count, ms, report } from "./figures.ts";
import { sizeOf } from "./sizes.ts";
import { open } from "./workers/open.js";

const MINUTE_MS = 60_000;
const LEASE_MS = 1_500;
/** Attempts renew after a third of their lease. */
const RENEWED_MS = LEASE_MS * 0.6;
const { keys, workMs } = sizeOf("clock-steps");
const KEYS = Array.from({ length: keys }, (_, index) => `key ${index}`);

interface Scene {
  readonly store: Store;
  step(byMs: number): void;
  /** A guard that collects its events. Guards of one scene share their records. */
  guard(options?: PolicyOptions): Guard & { readonly events: GuardEvent[] };
}

const STARTS = { Redis: startRedis, Postgres: startPostgres } as const;

describe.concurrent.each(["Redis", "Postgres"] as const)("on %s", (name) => {
  let server: Server | undefined;
  let store: Store;
  let missing: string | undefined;
  let scenes = 0;

  beforeAll(async () => {
    try {
      server = await STARTS[name]({ clock: true });
      store = await open(server.url);
    } catch (error) {
      if (!(error instanceof NotInstalled)) throw error;
      missing = error.message;
    }
  });
  afterAll(async () => {
    await store?.close();
    await server?.stop();
  });

  function scene({ skip, onTestFinished }: TestContext): Scene {
    if (missing !== undefined) skip(missing);
    const namespace = `scene ${++scenes}`;
    return {
      store,
      step: (byMs) => server?.stepClock(byMs),
      guard(options) {
        const events: GuardEvent[] = [];
        const observer = (event: GuardEvent) => void events.push(event);
        const policy = { leaseMs: LEASE_MS, waitMs: 30_000, ...options };
        const guard = createGuard({ store, namespace, observer, purgeEveryMs: 0, drainMs: 0, ...policy });
        onTestFinished(async () => void (await guard.close()));
        return { ...guard, events };
      },
    };
  }

  /** Attempts that renew keep their keys after a step of the clock, although other callers want them `afterMs` later. */
  async function expectUndisturbed({ step, guard }: ReturnType<typeof scene>, byMs: number, afterMs: number) {
    const runs = countRuns();
    const owner = guard();
    const other = guard();
    const owners = KEYS.map((key) => owner.tryRun({ operation: "work", key }, () => runs.work(key, workMs)));
    await sleep(RENEWED_MS);
    step(byMs);
    await sleep(afterMs);
    const others = KEYS.map((key) => other.tryRun({ operation: "work", key }, () => runs.work(key, 0)));
    expect(await Promise.all(owners)).toEqual(
      KEYS.map((value) => ({ status: "ran", value, recorded: true })),
    );
    expect(await Promise.all(others)).toEqual(KEYS.map((value) => ({ status: "replayed", value })));
    expect(runs.perKey()).toEqual(KEYS.map(() => 1));
    expect(ofKind([...owner.events, ...other.events], "lease-lost", "taken-over")).toEqual([]);
  }

  test.sequential("after the clock goes back, every attempt that renews keeps its key although other callers claim it", async (context) => {
    await expectUndisturbed(scene(context), -MINUTE_MS, 0);
    await report(store, {
      trial: "The store's clock goes back a minute",
      figures: `${count(keys)} attempts that renew and ${count(keys)} callers that ask for the same keys: each work ran once, and no attempt was taken over`,
    });
  });

  test.sequential("after the clock goes back, a key whose owner is gone is taken over one lease after the claim, not a minute later", async (context) => {
    const { step, guard } = scene(context);
    const gone = guard({ maxRunMs: 1 });
    await new Promise<void>((resolve) => {
      void gone.tryRun({ operation: "work", key: "left" }, () => {
        resolve();
        return sleep(2 * LEASE_MS + MINUTE_MS, undefined, { ref: false });
      });
    });
    step(-MINUTE_MS);
    const startedAt = performance.now();
    const heir = guard();
    expect(await heir.tryRun({ operation: "work", key: "left" }, () => "had")).toMatchObject({
      status: "ran",
    });
    const tookMs = performance.now() - startedAt;
    expect(ofKind(heir.events, "taken-over")).toHaveLength(1);
    expect(tookMs).toBeGreaterThan(LEASE_MS - 50);
    expect(tookMs).toBeLessThan(MINUTE_MS / 2);
    await report(store, {
      trial: "The store's clock goes back a minute",
      figures: `a key whose owner is gone, with a lease of ${ms(LEASE_MS)}, is taken over ${ms(tookMs)} after it is asked for`,
    });
  });

  test.sequential("after the clock goes ahead, attempts without competitors continue undisturbed", async (context) => {
    const { step, guard } = scene(context);
    const runs = countRuns();
    const owner = guard();
    const owners = KEYS.map((key) => owner.tryRun({ operation: "work", key }, () => runs.work(key, workMs)));
    await sleep(RENEWED_MS);
    step(MINUTE_MS);
    expect(await Promise.all(owners)).toEqual(
      KEYS.map((value) => ({ status: "ran", value, recorded: true })),
    );
    const later = KEYS.map((key) => guard().tryRun({ operation: "work", key }, () => runs.work(key, 0)));
    expect(await Promise.all(later)).toEqual(KEYS.map((value) => ({ status: "replayed", value })));
    expect(runs.perKey()).toEqual(KEYS.map(() => 1));
    expect(ofKind(owner.events, "lease-lost")).toEqual([]);
  });

  test.sequential("after the clock goes ahead, an attempt that has renewed since keeps its key although other callers claim it", async (context) => {
    await expectUndisturbed(scene(context), MINUTE_MS, RENEWED_MS);
    await report(store, {
      trial: "The store's clock goes ahead a minute",
      figures: `${count(keys)} attempts that renewed after the step and ${count(keys)} callers that ask for the same keys: each work ran once, and no attempt was taken over`,
    });
  });

  test.sequential("after the clock goes ahead, an attempt challenged before its next renewal is taken over once, notified and fenced", async (context) => {
    const { step, guard } = scene(context);
    const owner = guard();
    const challengers = [guard(), guard()];
    let begun = 0;
    const owners = KEYS.map((key) =>
      owner.tryRun({ operation: "work", key }, async ({ signal }) => {
        begun++;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return `${key} of the one that was overtaken`;
      }),
    );
    await vi.waitFor(() => expect(begun).toBe(keys));
    step(MINUTE_MS);
    const challenges = challengers.flatMap((challenger) =>
      KEYS.map((key) => challenger.tryRun({ operation: "work", key }, () => key)),
    );
    const answers = await Promise.all([...challenges, ...owners]);
    expect(answers.map((answer) => ("value" in answer ? answer.value : answer))).toEqual([
      ...KEYS,
      ...KEYS,
      ...KEYS,
    ]);
    expect((await Promise.all(owners)).every(({ status }) => status === "replayed")).toBe(true);
    const taken = challengers.flatMap(({ events }) => ofKind(events, "taken-over"));
    const lost = ofKind(owner.events, "lease-lost");
    expect(taken).toHaveLength(keys);
    for (const { keyHash, fence, number } of taken) {
      expect(number).toBe(2);
      const overtaken = lost.find((event) => event.keyHash === keyHash);
      expect(overtaken?.reason).toBe("overtaken");
      expect(fence).toBeGreaterThan(overtaken?.fence ?? Number.POSITIVE_INFINITY);
    }
    await report(store, {
      trial: "The store's clock goes ahead a minute",
      figures: `${count(keys)} attempts challenged before they renewed: each was taken over once, notified and fenced; every caller got the successor's outcome`,
    });
  });
});

/** Work that counts its runs by key, and returns its key after `ms`. */
function countRuns(): { work(key: string, ms: number): Promise<string>; perKey(): number[] } {
  const runs = new Map<string, number>();
  return {
    async work(key, ms) {
      runs.set(key, (runs.get(key) ?? 0) + 1);
      await sleep(ms);
      return key;
    },
    perKey: () => KEYS.map((key) => runs.get(key) ?? 0),
  };
}

function ofKind<Kind extends GuardEvent["kind"]>(
  events: readonly GuardEvent[],
  ...kinds: readonly Kind[]
): (GuardEvent & { kind: Kind })[] {
  return events.filter((event): event is GuardEvent & { kind: Kind } => kinds.includes(event.kind as Kind));
}
