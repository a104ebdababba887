/**
 * Tests checking and marking in two steps: what counts as done, for how long, and what can happen between the two
 * steps.
 */
import { describe, expect, test } from "vitest";
import type { Subject } from "../../src/core/request.ts";
import type { Store } from "../../src/core/store.ts";
import { createMarks } from "../../src/functions/mark.ts";
import { createScene } from "../core/scene.ts";

const subject = { operation: "bill", scope: "alice", key: "invoice-1" };
const many = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ ...subject, key: `invoice-${i}` }));
const untyped = (value: unknown) => value as never;

function createMarkScene(options: Parameters<typeof createScene>[0] = {}) {
  const scene = createScene(options);
  const told: unknown[][] = [];
  const marks = createMarks(scene.guard, (...what) => told.push(what));
  return { ...scene, scene, marks, told };
}

describe("a mark", () => {
  test("is seen from then on, and a second mark returns false", async () => {
    const { marks } = createMarkScene();
    expect(await marks.seen(subject)).toBe(false);
    expect(await marks.mark(subject)).toBe(true);
    expect(await marks.seen(subject)).toBe(true);
    expect(await marks.mark(subject)).toBe(false);
    expect(await marks.seen({ ...subject, scope: "bob" })).toBe(false);
  });

  test("lasts a minute by default, and marking again does not extend it", async () => {
    const { marks, advance } = createMarkScene();
    await marks.mark(subject);
    await marks.mark({ ...subject, key: "long", retentionMs: 600_000 });
    await advance(59_000);
    expect(await marks.mark(subject)).toBe(false);
    expect(await marks.seen(subject)).toBe(true);
    await advance(1_500);
    expect(await marks.seen(subject)).toBe(false);
    expect(await marks.seen({ ...subject, key: "long" })).toBe(true);
    expect(await marks.mark(subject)).toBe(true);
  });

  test("lasts as long as the guard's markRetentionMs", async () => {
    const { marks, advance } = createMarkScene({ markRetentionMs: 5_000 });
    await marks.mark(subject);
    await advance(4_000);
    expect(await marks.seen(subject)).toBe(true);
    await advance(1_500);
    expect(await marks.seen(subject)).toBe(false);
  });

  test("shares its record with runs: each sees the other, and a run replays the mark's value", async () => {
    const { marks, guard } = createMarkScene();
    await guard.run(subject, () => "billed");
    expect(await marks.seen(subject)).toBe(true);
    expect(await marks.mark(subject)).toBe(false);
    const other = { ...subject, key: "invoice-2" };
    await marks.mark({ ...other, value: { receipt: 7 } });
    expect(await guard.run(other, () => "not again")).toEqual({ receipt: 7 });
  });

  test("waits for a run in flight, which is not done yet, and then returns false", async () => {
    const { marks, guard, sleep, advance, settle } = createMarkScene();
    const run = guard.run(subject, () => sleep(100));
    await advance(10);
    const asked: Subject[] = [];
    expect(await marks.seen({ ...subject, lookup: (one) => asked.push(one) })).toBe(false);
    expect(asked).toEqual([]);
    expect(await settle(marks.mark(subject))).toBe(false);
    await run;
    expect(await marks.seen(subject)).toBe(true);
  });

  test("returns true if the run that it waited for gives the key back", async () => {
    const { marks, guard, sleep, advance, settle } = createMarkScene();
    const run = guard.run(subject, (attempt) => sleep(100).then(() => Promise.reject(attempt.notDone("no"))));
    run.catch(() => {});
    await advance(10);
    expect(await settle(marks.mark(subject))).toBe(true);
    await expect(run).rejects.toBe("no");
  });

  test("throws pending only if the run does not end within waitMs", async () => {
    const { marks, guard, world, sleep, advance, settle } = createMarkScene({ waitMs: 3_000 });
    const run = guard.run(subject, () => sleep(60_000));
    await advance(10);
    const askedAt = world.now();
    await expect(settle(marks.mark(subject))).rejects.toMatchObject({ code: "pending" });
    expect(world.now() - askedAt).toBeGreaterThanOrEqual(3_000);
    expect(await settle(Promise.all([run, sleep(0)]))).toEqual([undefined, undefined]);
  });

  test("throws unknown over an unknown outcome that the guard holds", async () => {
    const { marks, guard } = createMarkScene({ onLapsed: "hold", onFailure: "unknown" });
    await guard.run(subject, () => Promise.reject(new Error("cut off"))).catch(() => {});
    expect(await marks.seen(subject)).toBe(false);
    await expect(marks.mark(subject)).rejects.toMatchObject({ code: "unknown", fence: expect.any(Number) });
  });

  test("does not return true before the store has confirmed it, even with completeWaitMs 0", async () => {
    const { marks, store } = createMarkScene({ completeWaitMs: 0 });
    expect(await marks.mark(subject)).toBe(true);
    expect(store.calls.complete).toBe(1);
    expect(await marks.seen(subject)).toBe(true);
  });

  test("is checked in one round trip", async () => {
    const { marks, store } = createMarkScene();
    await marks.seen(subject);
    await marks.mark(subject);
    await marks.seen(subject);
    expect(store.calls).toMatchObject({ read: 2, claim: 1, complete: 1 });
  });
});

test("the race: two callers that check before either marks both do the work, and one of them gets false from its mark", async () => {
  const { marks, scene } = createMarkScene();
  const other = createMarks(scene.another(), () => {});
  let billed = 0;
  async function job({ seen, mark }: typeof marks): Promise<boolean> {
    if (await seen(subject)) return false;
    await scene.sleep(10);
    billed++;
    return mark(subject);
  }
  const both = await scene.settle(Promise.all([job(marks), job(other)]));
  expect(billed).toBe(2);
  expect(both.toSorted()).toEqual([false, true]);
});

describe("marks at the same moment", () => {
  const POLICIES = [
    ["wait, with pushes", { onPending: "wait" }, true],
    ["reject, with pushes", { onPending: "reject" }, true],
    ["wait, polling", { onPending: "wait" }, false],
    ["reject, polling", { onPending: "reject" }, false],
  ] as const;

  test.each(POLICIES)(
    "return true to one caller, whatever the guards' policies (%s)",
    async (_, policy, isPushed) => {
      const { marks, scene } = createMarkScene(policy);
      const pushed = slow(scene);
      const { watch: _push, ...unwatched } = pushed;
      const store = isPushed ? pushed : unwatched;
      const others = [scene.another({ store }), scene.another({ store, onPending: "reject" })];
      const all = [marks, ...others.map((guard) => createMarks(guard, () => {}))];
      const asked = Array.from({ length: 60 }, (_, i) => (all[i % 3] as typeof marks).mark(subject));
      const answers = await scene.settle(Promise.all(asked));
      expect(answers.filter((isFirst) => isFirst)).toHaveLength(1);
    },
  );

  test("in batches of different order neither fail nor block each other", async () => {
    const { marks, scene } = createMarkScene({ onPending: "reject" });
    const other = createMarks(scene.another({ store: slow(scene) }), () => {});
    const subjects = many(20);
    const batches = [
      marks.markBatch(subjects, { concurrency: 1 }),
      other.markBatch(subjects.toReversed(), { concurrency: 1 }),
      marks.markBatch([...subjects, ...subjects]),
      other.markBatch(subjects.toReversed()),
    ];
    const [one = [], two = [], three = [], four = []] = await scene.settle(Promise.all(batches));
    for (const i of subjects.keys()) {
      const answers = [one[i], two[19 - i], three[i], three[20 + i], four[19 - i]];
      expect(answers.filter((isFirst) => isFirst)).toHaveLength(1);
    }
  });

  test.each([
    ["stays silent until the lease has ended: then the next mark is first", Number.POSITIVE_INFINITY, true],
    ["comes back: the unconfirmed mark is written, and the next mark is not first", 1_000, false],
  ])(
    "throw unavailable if the store does not confirm the first mark. The store %s",
    async (_, downMs, isNext) => {
      const { scene } = createMarkScene();
      const downUntil = scene.world.now() + downMs;
      const store: Store = {
        ...scene.inner,
        async complete(request) {
          if (scene.world.now() < downUntil) throw new Error("no connection");
          return scene.inner.complete(request);
        },
      };
      const { mark } = createMarks(scene.another({ store, leaseMs: 3_000 }), () => {});
      const other = createMarks(scene.another(), () => {});
      const unconfirmed = scene.settle(mark(subject));
      await expect(unconfirmed).rejects.toMatchObject({ code: "unavailable", retryable: true });
      expect(await scene.settle(other.mark(subject))).toBe(isNext);
      expect(await scene.settle(mark(subject))).toBe(false);
    },
  );

  test("do not delay a check whose lookup knows that the work is done", async () => {
    const { marks, guard, world, sleep, settle } = createMarkScene();
    const startedAt = world.now();
    let run: Promise<unknown> | undefined;
    const lookup = async () => {
      run = guard.run(subject, () => sleep(5_000));
      await sleep(10);
      return true;
    };
    expect(await settle(marks.seen({ ...subject, lookup }))).toBe(true);
    expect(world.now() - startedAt).toBeLessThan(5_000);
    await settle(run as Promise<unknown>);
  });
});

/** The scene's store with some time between a claim and its completion, so that other calls come in between. */
function slow({ inner, sleep }: ReturnType<typeof createScene>): Store {
  return {
    ...inner,
    async complete(request) {
      await sleep(20);
      return inner.complete(request);
    },
  };
}

describe("release", () => {
  test("takes a mark back, so that the work may be done again", async () => {
    const { marks } = createMarkScene();
    await marks.mark(subject);
    expect(await marks.release(subject)).toBe(true);
    expect(await marks.seen(subject)).toBe(false);
    expect(await marks.mark(subject)).toBe(true);
  });

  test("removes what a run recorded, with its outcome", async () => {
    const { marks, guard } = createMarkScene();
    expect(await guard.run(subject, () => 1)).toBe(1);
    expect(await marks.release(subject)).toBe(true);
    expect(await guard.run({ ...subject, fingerprint: "another" }, () => 2)).toBe(2);
  });

  test("does nothing to a key that is absent, in flight, given up or unknown", async () => {
    const { marks, guard, sleep, advance, settle } = createMarkScene({ onFailure: () => "unknown" });
    expect(await marks.release(subject)).toBe(false);
    const run = guard.run(subject, () => sleep(100));
    await advance(10);
    expect(await marks.release(subject)).toBe(false);
    await settle(run);
    await guard.run({ ...subject, key: "lost" }, () => Promise.reject(new Error("cut off"))).catch(() => {});
    expect(await marks.release({ ...subject, key: "lost" })).toBe(false);
    expect(await marks.release(subject)).toBe(true);
    expect(await marks.release(subject)).toBe(false);
  });
});

describe("a lookup", () => {
  test("is called only if the store has no answer, and a found key is marked again", async () => {
    const { marks, store } = createMarkScene();
    const asked: Subject[] = [];
    const lookup = (one: Subject) => {
      asked.push(one);
      return { row: 1 };
    };
    expect(await marks.seen({ ...subject, lookup })).toBe(true);
    expect(asked).toEqual([subject]);
    expect(await marks.seen({ ...subject, lookup })).toBe(true);
    expect(asked.length).toBe(1);
    expect(await marks.seen(subject)).toBe(true);
    expect(store.calls.claim).toBe(1);
  });

  test("is also called for a key that was given up or lost, since the store does not know its outcome", async () => {
    const { marks, guard } = createMarkScene({ onFailure: () => "unknown" });
    await guard.run(subject, () => Promise.reject(new Error("cut off"))).catch(() => {});
    expect(await marks.seen({ ...subject, lookup: async () => true })).toBe(true);
    expect(await marks.seen(subject)).toBe(true);
  });

  test("that finds nothing leaves no record behind", async () => {
    const { marks, store } = createMarkScene();
    for (const nothing of [false, null, undefined, 0, ""])
      expect(await marks.seen({ ...subject, lookup: async () => nothing })).toBe(false);
    expect(store.calls.claim).toBe(0);
  });

  test("that rejects makes the check reject", async () => {
    const { marks } = createMarkScene();
    const down = new Error("no database");
    await expect(marks.seen({ ...subject, lookup: () => Promise.reject(down) })).rejects.toBe(down);
  });

  test("counts even if its mark cannot be written", async () => {
    const { marks, store, settle } = createMarkScene({ storeTimeoutMs: 50 });
    const lookup = () => {
      store.setRates({ refuse: 1 });
      return true;
    };
    expect(await settle(marks.seen({ ...subject, lookup }))).toBe(true);
    expect(store.calls.claim).toBeGreaterThan(0);
    store.setRates({});
    expect(await marks.seen(subject)).toBe(false);
  });
});

describe("a store that does not answer", () => {
  const down = (options: Parameters<typeof createScene>[0] = {}) => {
    const made = createMarkScene({ storeTimeoutMs: 50, ...options });
    made.store.setRates({ refuse: 1 });
    return made;
  };

  test("makes the check throw, and notifies the observer", async () => {
    const { marks, told, settle } = down();
    await expect(settle(marks.seen({ ...subject, lookup: () => true }))).rejects.toMatchObject({
      code: "unavailable",
    });
    expect(told).toEqual([["unavailable", subject, expect.objectContaining({ code: "unavailable" })]]);
  });

  test.each([
    ["the guard", { onUnavailable: "proceed" }, {}],
    ["the call", {}, { onUnavailable: "proceed" }],
  ] as const)(
    "does not if %s says to proceed: then the lookup decides, or the answer is false",
    async (_, ofGuard, ofCall) => {
      const { marks, told, settle } = down(ofGuard);
      expect(await settle(marks.seen({ ...subject, ...ofCall }))).toBe(false);
      expect(told.map(([kind]) => kind)).toEqual(["unavailable", "proceeded"]);
      expect(await settle(marks.seen({ ...subject, ...ofCall, lookup: () => true }))).toBe(true);
      expect(await settle(marks.seen({ ...subject, ...ofCall, lookup: () => null }))).toBe(false);
      expect(told.length).toBe(6);
    },
  );

  test("makes the mark throw, or under proceed lets it be written in the background", async () => {
    const { marks, store, advance, settle } = down();
    await expect(settle(marks.mark(subject))).rejects.toMatchObject({ code: "unavailable" });
    expect(await settle(marks.mark({ ...subject, key: "later", onUnavailable: "proceed" }))).toBe(true);
    store.setRates({});
    await advance(20_000);
    expect(await marks.seen({ ...subject, key: "later" })).toBe(true);
    expect(await marks.seen(subject)).toBe(false);
  });

  test("is not called for the rest of a batch", async () => {
    const { marks, store, settle } = down();
    await expect(settle(marks.seenBatch(many(100), { concurrency: 4 }))).rejects.toMatchObject({
      code: "unavailable",
    });
    expect(store.calls.read).toBeLessThanOrEqual(4);
  });

  test("differs from a closed guard, which no policy bypasses", async () => {
    const { marks, guard } = createMarkScene({ onUnavailable: "proceed" });
    await guard.close();
    await expect(marks.seen(subject)).rejects.toMatchObject({ code: "guard-closed" });
  });
});

describe("a batch", () => {
  test("returns its answers in order", async () => {
    const { marks } = createMarkScene();
    const subjects = many(600);
    const even = subjects.filter((_, i) => i % 2 === 0);
    expect(await marks.markBatch(even)).toEqual(even.map(() => true));
    expect(await marks.seenBatch(subjects)).toEqual(subjects.map((_, i) => i % 2 === 0));
    expect(await marks.markBatch(subjects)).toEqual(subjects.map((_, i) => i % 2 === 1));
    expect(await marks.releaseBatch(even)).toEqual(even.map(() => true));
    expect(await marks.seenBatch(subjects, { concurrency: 1 })).toEqual(subjects.map((_, i) => i % 2 === 1));
    expect(await marks.seenBatch([])).toEqual([]);
  });

  test("has options for all its items, which an item may override", async () => {
    const { marks, advance, guard } = createMarkScene();
    const [first, second] = many(2) as [Subject, Subject];
    await marks.markBatch(
      [
        { ...first, value: 1 },
        { ...second, retentionMs: 5_000 },
      ],
      {
        retentionMs: 600_000,
        value: "all",
      },
    );
    await advance(60_500);
    expect(await marks.seenBatch([first, second])).toEqual([true, false]);
    expect(await guard.run(first, () => 0)).toBe(1);
    expect(await marks.seenBatch([first, second], { lookup: ({ key }) => key === second.key })).toEqual([
      true,
      true,
    ]);
  });

  test("runs at most `concurrency` items at once", async () => {
    const { marks, sleep, settle } = createMarkScene();
    let underWay = 0;
    let most = 0;
    const lookup = async () => {
      most = Math.max(most, ++underWay);
      await sleep(10);
      underWay--;
    };
    await settle(marks.seenBatch(many(20), { lookup, concurrency: 3 }));
    expect(most).toBe(3);
  });

  test("completes the other items if one fails, and then throws that item's error", async () => {
    const { marks, guard, sleep, advance, settle } = createMarkScene({ waitMs: 500 });
    const subjects = many(5);
    const run = guard.run(subjects[1] as Subject, () => sleep(1_000));
    await advance(10);
    const marked = settle(marks.markBatch(subjects, { concurrency: 1 }));
    await expect(marked).rejects.toMatchObject({ code: "pending" });
    expect(await marks.seenBatch(subjects)).toEqual([true, false, true, true, true]);
    await settle(run);
  });
});

test("refuses misspelt and invalid options by name", async () => {
  const { marks, store } = createMarkScene({ onLapsed: "hold" });
  const refused = (code: string, words: string) => ({ code, message: expect.stringContaining(words) });
  const invalid = (words: string) => refused("options-invalid", words);
  await expect(marks.seen(untyped({ ...subject, lookUp: () => 1 }))).rejects.toMatchObject(invalid("lookUp"));
  await expect(marks.seen(untyped({ ...subject, lookup: "sql" }))).rejects.toMatchObject(invalid("lookup"));
  await expect(marks.seen({ ...subject, onUnavailable: "proceed" })).rejects.toMatchObject(invalid("hold"));
  await expect(marks.seen(untyped({ scope: "alice", key: "k" }))).rejects.toMatchObject(invalid("operation"));
  await expect(marks.mark({ ...subject, retentionMs: 0 })).rejects.toMatchObject(invalid("retentionMs"));
  await expect(marks.mark(untyped({ ...subject, ttl: 60 }))).rejects.toMatchObject(invalid("ttl"));
  await expect(marks.mark({ ...subject, key: "" })).rejects.toMatchObject(refused("key-missing", "key"));
  await expect(marks.release(untyped({ ...subject, force: true }))).rejects.toMatchObject(invalid("force"));
  await expect(marks.seenBatch(untyped(subject))).rejects.toMatchObject(invalid("array"));
  await expect(marks.seenBatch([], { concurrency: 0 })).rejects.toMatchObject(invalid("concurrency"));
  await expect(marks.releaseBatch([], untyped({ lookup: () => 1 }))).rejects.toMatchObject(invalid("lookup"));
  expect(store.calls).toMatchObject({ read: 0, claim: 0 });
});
