/** Tests a silent store: how long each public call waits for it, in fake time. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Claims, createClaims } from "../../src/claims/index.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { createScene } from "./scene.ts";

const STORE_TIMEOUT_MS = 5_000;
const SUBJECT = { operation: "charge", key: "order-1" };
const HELD = { id: "0".repeat(64), token: "0123456789abcdef" };
const work = () => "done";

/** The real store behind a network that accepts every call and returns no answer. */
function silentStore(): Store {
  const store = memoryStore();
  const silent = () => new Promise<never>(() => {});
  const { claim, complete, abandon, renew, read, purge, list, undecided, forget } = store;
  const asked = { claim, complete, abandon, renew, read, purge, list, undecided, forget };
  // `guard.transaction` asks for the connection of its store first, and then claims like every other call.
  const transactions = { kind: "connection", isConnection: () => true };
  return {
    ...store,
    ...Object.fromEntries(Object.keys(asked).map((name) => [name, silent])),
    transactions,
  } as Store;
}

/** Every method of a guard that calls the store. */
const GUARD_CALLS: Readonly<Record<string, (guard: Guard) => Promise<unknown>>> = {
  run: (guard) => guard.run(SUBJECT, work),
  tryRun: (guard) => guard.tryRun(SUBJECT, work),
  wrap: (guard) => guard.wrap(work, { operation: "charge", key: () => "k" })(),
  transaction: (guard) => guard.transaction(SUBJECT, { exec: work, prepare: work }, work),
  exclusive: (guard) => guard.exclusive("report", work),
  claim: (guard) => guard.claim(SUBJECT),
  claimBatch: (guard) => guard.claimBatch([SUBJECT, { ...SUBJECT, key: "2" }], { concurrency: 1 }),
  seen: (guard) => guard.seen(SUBJECT),
  seenBatch: (guard) => guard.seenBatch([SUBJECT, { ...SUBJECT, key: "2" }], { concurrency: 1 }),
  mark: (guard) => guard.mark(SUBJECT),
  markBatch: (guard) => guard.markBatch([SUBJECT, { ...SUBJECT, key: "2" }], { concurrency: 1 }),
  release: (guard) => guard.release(SUBJECT),
  releaseBatch: (guard) => guard.releaseBatch([SUBJECT, { ...SUBJECT, key: "2" }], { concurrency: 1 }),
  read: (guard) => guard.read(SUBJECT),
  list: (guard) => guard.list(),
  listUnknown: (guard) => guard.listUnknown(),
  undecided: (guard) => guard.undecided(),
  resolve: (guard) => guard.resolve({ ...SUBJECT, fence: 1 }, { status: "not-done" }),
  forget: (guard) => guard.forget(SUBJECT),
  "forget a scope": (guard) => guard.forget({ scope: "alice" }),
  reopen: (guard) => guard.reopen(SUBJECT),
  ready: (guard) => guard.ready(),
  purge: (guard) => guard.purge(),
};
const ASK_NOTHING = ["policy", "with", "retune", "about", "deriveKey", "close"];

const CLAIMS_CALLS: Readonly<Record<Exclude<keyof Claims, "close">, (claims: Claims) => Promise<unknown>>> = {
  claim: (claims) => claims.claim(SUBJECT),
  complete: (claims) => claims.complete({ ...HELD, value: 1 }),
  abandon: (claims) => claims.abandon({ ...HELD, as: "released" }),
  renew: (claims) => claims.renew(HELD),
  read: (claims) => claims.read(HELD.id),
};

/** Returns how the call ended, and how long it took. */
async function timed(call: () => Promise<unknown>): Promise<{ end: unknown; tookMs: number }> {
  const startedAt = performance.now();
  const ended = call()
    .catch((error: unknown) => error)
    .then((end) => ({ end: endOf(end), tookMs: performance.now() - startedAt }));
  await vi.advanceTimersByTimeAsync(60_000);
  return ended;
}

/** Returns the error, whether it was thrown or returned. */
function endOf(end: unknown): unknown {
  const [first] = Array.isArray(end) ? end : [end];
  return (first as { readonly error?: unknown }).error ?? first;
}

const SILENT = {
  code: "unavailable",
  waitedMs: STORE_TIMEOUT_MS,
  message: expect.stringContaining(`did not answer within ${STORE_TIMEOUT_MS} ms`),
};

describe("a call to a silent store ends after storeTimeoutMs with unavailable:", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test.each(Object.entries(GUARD_CALLS))("guard.%s", async (_, call) => {
    const guard = createGuard({ store: silentStore(), purgeEveryMs: 0, storeTimeoutMs: STORE_TIMEOUT_MS });
    const { end, tookMs } = await timed(() => call(guard));
    expect(end).toMatchObject(SILENT);
    expect(tookMs).toBe(STORE_TIMEOUT_MS);
  });

  describe.each([
    { who: "no observer", observer: undefined },
    { who: "an observer, which learns whose claim it is", observer: () => {} },
  ])("with $who,", ({ observer }) => {
    test.each(Object.entries(CLAIMS_CALLS))("createClaims().%s", async (_, call) => {
      const store = silentStore();
      const claims = createClaims({ store, observer, storeTimeoutMs: STORE_TIMEOUT_MS });
      const { end, tookMs } = await timed(() => call(claims));
      expect(end).toMatchObject(SILENT);
      expect(tookMs).toBe(STORE_TIMEOUT_MS);
    });
  });

  test("and these are all methods of a guard", () => {
    const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    const named = Object.keys(GUARD_CALLS).filter((name) => !name.includes(" "));
    expect([...named, ...ASK_NOTHING].sort()).toEqual(Object.keys(guard).sort());
  });
});

describe("the tries of one claim", () => {
  const request = { operation: "charge", key: "order-1" };

  test("share one timeout: the second try is sent when half of it has passed", async () => {
    const { guard, store, settle, world } = createScene({ storeTimeoutMs: 100 });
    for (let i = 0; i < 9; i++) store.plan("claim", "hang");
    expect(await settle(guard.tryRun(request, () => 1))).toMatchObject({ status: "unavailable" });
    expect(store.calls.claim).toBe(2);
    expect(world.now()).toBe(100);
  });

  test("still accept an answer that takes longer than the first try's share", async () => {
    const { another, inner, settle, sleep, world } = createScene({ storeTimeoutMs: 100 });
    let claims = 0;
    const slow: Store = {
      ...inner,
      async claim(asked) {
        claims++;
        const answer = await inner.claim(asked);
        await sleep(80);
        return answer;
      },
    };
    expect(await settle(another({ store: slow }).tryRun(request, ({ number }) => number))).toEqual({
      status: "ran",
      value: 1,
      recorded: true,
    });
    expect([claims, world.now()]).toEqual([2, 80]);
    expect((await inner.list?.({ namespace: "scene", limit: 9 }))?.records).toMatchObject([
      { state: "completed", number: 1 },
    ]);
  });

  test("end after three refused connections, with the last failure", async () => {
    const { guard, store, settle } = createScene({ storeTimeoutMs: 5_000 });
    for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
    const error = await settle(guard.run(request, () => 1)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "unavailable", waitedMs: 150 });
    expect((error as Error).message).toBe(
      "unavailable: the store cannot answer: faulty store: claim was refused. That was the last failure, after 150 ms. The work was not run; try again.",
    );
  });
});
