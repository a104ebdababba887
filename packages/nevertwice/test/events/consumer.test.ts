/** The result and the verdict of each delivery of a message. */
import { describe, expect, expectTypeOf, it } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import type { PolicyOptions } from "../../src/core/policy.ts";
import {
  type ConsumerEvent,
  type ConsumerOptions,
  consumer,
  RETRY_HORIZONS_MS,
} from "../../src/events/index.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";
import { gate } from "../deferred.ts";

interface Message {
  readonly id?: string;
  readonly body?: string;
  readonly tenant?: string;
}

const DAY_MS = 86_400_000;

function shop(policies: PolicyOptions = {}) {
  const clock = manualClock();
  const store = faultyStore(memoryStore({ clock }));
  const guard = createGuard({ store, purgeEveryMs: 0, ...policies });
  return { clock, store, guard };
}

/** A consumer that records its work and its events. */
function till(options: Partial<ConsumerOptions<Message, string>> = {}, scene = shop()) {
  const done: string[] = [];
  const events: ConsumerEvent[] = [];
  const made = consumer<Message, string>(scene.guard, {
    name: "till",
    key: ({ id }) => id,
    work: ({ id }) => {
      done.push(id ?? "");
      return `receipt of ${id}`;
    },
    onEvent: (event) => events.push(event),
    ...options,
  });
  return { ...scene, done, events, till: made };
}

describe("a delivery", () => {
  it("is done, then done-before with the same value, and acknowledged both times", async () => {
    const { till: counter, done, events } = till();
    expect(await counter.handle({ id: "m1" })).toEqual({
      status: "done",
      verdict: "acknowledge",
      value: "receipt of m1",
      recorded: true,
      tries: 1,
    });
    expect(await counter.handle({ id: "m1" })).toEqual({
      status: "done-before",
      verdict: "acknowledge",
      value: "receipt of m1",
    });
    expect(done).toEqual(["m1"]);
    expect(events.map(({ kind }) => kind)).toEqual(["done", "done-before"]);
    expect(counter.name).toBe("till");
  });

  it("is reported with the key hash of the guard's events, never with its key", async () => {
    const seen: string[] = [];
    const clock = manualClock();
    const guard = createGuard({
      store: memoryStore({ clock }),
      observer: (event) => {
        if ("keyHash" in event) seen.push(event.keyHash);
      },
    });
    const { till: counter, events } = till({}, { ...shop(), guard });
    await counter.handle({ id: "secret-key" });
    expect(events).toEqual([{ kind: "done", consumer: "till", verdict: "acknowledge", keyHash: seen[0] }]);
    expect(JSON.stringify(events)).not.toContain("secret-key");
  });

  it("ignores what an observer throws", async () => {
    const { till: counter } = till({
      onEvent: () => {
        throw new Error("the watcher fell over");
      },
    });
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
  });

  it("without a stored value is done-before too", async () => {
    const { till: counter, done } = till({ onCompleted: "reject" });
    await counter.handle({ id: "m1" });
    expect(await counter.handle({ id: "m1" })).toEqual({ status: "done-before", verdict: "acknowledge" });
    const large = till({ maxOutcomeBytes: 64, work: () => "x".repeat(1_000) });
    expect((await large.till.handle({ id: "m1" })).status).toBe("done");
    expect(await large.till.handle({ id: "m1" })).toEqual({ status: "done-before", verdict: "acknowledge" });
    expect(done).toEqual(["m1"]);
  });

  it("gets later while another delivery is being processed, and does not wait", async () => {
    const { opened, open } = gate();
    const { till: counter, events } = till({ work: () => opened.then(() => "done"), laterMs: 250 });
    const first = counter.handle({ id: "m1" });
    expect(await counter.handle({ id: "m1" })).toEqual({ status: "pending", verdict: "later", afterMs: 250 });
    open();
    expect((await first).status).toBe("done");
    expect(events[0]).toMatchObject({ kind: "pending", verdict: "later" });
  });

  it('waits for the other delivery with onPending "wait"', async () => {
    const { opened, open } = gate();
    const { till: counter } = till({ onPending: "wait", work: () => opened.then(() => "done") });
    const first = counter.handle({ id: "m1" });
    const second = counter.handle({ id: "m1" });
    open();
    expect((await first).status).toBe("done");
    expect(await second).toEqual({ status: "done-before", verdict: "acknowledge", value: "done" });
  });

  it("gets later when the store does not answer, and nothing was done", async () => {
    const { till: counter, store, done, events } = till({ storeTimeoutMs: 50 });
    store.setRates({ refuse: 1 });
    const delivery = await counter.handle({ id: "m1" });
    expect(delivery).toMatchObject({ status: "unavailable", verdict: "later", afterMs: 1_000 });
    expect(done).toEqual([]);
    expect(events[0]).toMatchObject({ kind: "unavailable", verdict: "later" });
    store.setRates({});
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
  });

  it("is acknowledged when the work is done and the store cannot record it in time", async () => {
    const { till: counter, store } = till({ completeWaitMs: 0, storeTimeoutMs: 50 });
    store.plan("complete", "refuse");
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "done",
      verdict: "acknowledge",
      recorded: false,
    });
  });

  it("gets later when the guard is closed", async () => {
    const { till: counter, guard } = till();
    await guard.close();
    const delivery = await counter.handle({ id: "m1" });
    expect(delivery).toMatchObject({ status: "unavailable", verdict: "later" });
    expect(delivery).toHaveProperty("error.code", "guard-closed");
  });

  it("that lost its claim to another attempt gets later, and then done-before", async () => {
    const scene = shop();
    const gates = [gate(), gate()];
    const started = [gate(), gate()];
    const { till: counter } = till(
      {
        work: async (_, { number }) => {
          started[number - 1]?.open();
          await gates[number - 1]?.opened;
          return `attempt ${number}`;
        },
      },
      scene,
    );
    const slow = counter.handle({ id: "m1" });
    await started[0]?.opened;
    scene.clock.advance(30_001);
    const quick = counter.handle({ id: "m1" });
    await started[1]?.opened;
    gates[0]?.open();
    expect(await slow).toMatchObject({ status: "lease-lost", verdict: "later" });
    gates[1]?.open();
    expect(await quick).toMatchObject({ status: "done", value: "attempt 2" });
    expect(await counter.handle({ id: "m1" })).toMatchObject({ status: "done-before", value: "attempt 2" });
  });
});

describe("a failure", () => {
  it("EV-05 lets the next delivery try again: a terminal failure releases", async () => {
    let works = 0;
    const { till: counter, events } = till({
      work: () => {
        if (++works < 3) throw new Error("no");
        return "done";
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed",
      verdict: "later",
      tries: 1,
      attempts: 1,
      afterMs: 1_000,
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed",
      attempts: 2,
      afterMs: 2_000,
    });
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
    expect(events.map(({ kind }) => kind)).toEqual(["failed", "failed", "done"]);
    expect(events[0]).toHaveProperty("error.message", "no");
  });

  it("is retried within the delivery under one claim: number and fence stay the same", async () => {
    const attempts: { number: number; fence: number; tries: number; other: string }[] = [];
    const {
      till: counter,
      store,
      events,
    } = till({
      retry: { max: 2, baseMs: 0 },
      work: async (message, { number, fence }, tried) => {
        const other = await counter.handle(message);
        attempts.push({ number, fence, tries: tried.number, other: other.status });
        if (attempts.length < 3) throw new Error("no");
        return "done";
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({ status: "done", tries: 3 });
    expect(attempts.map(({ number }) => number)).toEqual([1, 1, 1]);
    expect(new Set(attempts.map(({ fence }) => fence)).size).toBe(1);
    expect(attempts.map(({ tries }) => tries)).toEqual([1, 2, 3]);
    expect(attempts.map(({ other }) => other)).toEqual(["pending", "pending", "pending"]);
    // Its own claim, and those of the three other deliveries.
    expect(store.calls.claim).toBe(4);
    expect(store.calls.abandon).toBe(0);
    expect(events.filter(({ kind }) => kind === "retrying")).toMatchObject([{ tries: 1 }, { tries: 2 }]);
  });

  it("is final when its retries are used up", async () => {
    let works = 0;
    const { till: counter } = till({
      retry: { max: 2, baseMs: 0 },
      work: () => {
        throw new Error(`no ${++works}`);
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed",
      verdict: "later",
      tries: 3,
      attempts: 1,
      error: { message: "no 3" },
    });
  });

  it("that is permanent is rejected without a retry, and releases the key", async () => {
    let works = 0;
    const { till: counter } = till({
      retry: { max: 5, baseMs: 0 },
      isPermanent: (error) => (error as Error).message === "never",
      work: () => {
        if (++works === 1) throw new Error("never");
        return "after all";
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed",
      verdict: "reject",
      tries: 1,
    });
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
  });

  it("is not permanent if isPermanent throws", async () => {
    const { till: counter } = till({
      isPermanent: () => {
        throw new Error("no idea");
      },
      work: () => {
        throw new Error("no");
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({ status: "failed", verdict: "later" });
  });

  it("is rejected after maxAttempts, counted by the store over all deliveries and consumers", async () => {
    const scene = shop();
    const options = {
      maxAttempts: 3,
      work: () => {
        throw new Error("no");
      },
    };
    const verdicts: string[] = [];
    for (let delivery = 0; delivery < 3; delivery++) {
      // Each time another process, without memory of the earlier ones.
      const { till: counter } = till(options, scene);
      verdicts.push((await counter.handle({ id: "m1" })).verdict);
    }
    expect(verdicts).toEqual(["later", "later", "reject"]);
  });

  it("is sent again after growing delays, up to a limit", async () => {
    const { till: counter } = till({
      laterMs: 100,
      maxLaterMs: 350,
      work: () => {
        throw new Error("no");
      },
    });
    const after: unknown[] = [];
    for (let delivery = 0; delivery < 4; delivery++) {
      const answer = await counter.handle({ id: "m1" });
      after.push("afterMs" in answer && answer.afterMs);
    }
    expect(after).toEqual([100, 200, 350, 350]);
  });

  it("that the policy remembers is rejected on the next delivery", async () => {
    const { till: counter, events } = till({
      onFailure: "remember",
      work: () => {
        throw new Error("declined");
      },
    });
    await counter.handle({ id: "m1" });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed-before",
      verdict: "reject",
      error: { message: "declined" },
    });
    expect(events[1]).toMatchObject({ kind: "failed-before", verdict: "reject" });
  });

  it("is not retried once its claim is lost", async () => {
    let works = 0;
    const { till: counter, events } = till({
      maxRunMs: 30,
      retry: { max: 100, baseMs: 5, jitter: 0 },
      work: async (_, { signal }) => {
        works++;
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        throw new Error("cut off");
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({
      status: "failed",
      verdict: "later",
      tries: 1,
    });
    expect(works).toBe(1);
    expect(events.map(({ kind }) => kind)).toEqual(["failed"]);
  });

  it("ends the pause before a retry when the claim is lost", { timeout: 5_000 }, async () => {
    const { till: counter } = till({
      maxRunMs: 30,
      retry: { max: 1, baseMs: 60_000, capMs: 60_000, jitter: 0 },
      work: () => {
        throw new Error("no");
      },
    });
    expect(await counter.handle({ id: "m1" })).toMatchObject({ status: "failed", tries: 1 });
  });
});

describe("the same key with other content", () => {
  const compared = { fingerprint: ({ body }: Message) => body };

  it("EV-10 is a duplicate by its id alone, unless contents are compared", async () => {
    const { till: counter, done } = till();
    await counter.handle({ id: "m1", body: "ten" });
    expect((await counter.handle({ id: "m1", body: "twenty" })).status).toBe("done-before");
    expect(done).toEqual(["m1"]);
  });

  it("EV-10 raises an alarm if the first is done, is acknowledged and never run", async () => {
    const { till: counter, done, events } = till(compared);
    await counter.handle({ id: "m1", body: "ten" });
    expect(await counter.handle({ id: "m1", body: "twenty" })).toEqual({
      status: "conflict",
      verdict: "acknowledge",
      state: "completed",
    });
    expect(done).toEqual(["m1"]);
    expect(events[1]).toMatchObject({ kind: "alarm", verdict: "acknowledge" });
  });

  it("gets later while the first is pending", async () => {
    const { opened, open } = gate();
    const { till: counter, events } = till({ ...compared, work: () => opened.then(() => "done") });
    const first = counter.handle({ id: "m1", body: "ten" });
    expect(await counter.handle({ id: "m1", body: "twenty" })).toMatchObject({
      status: "conflict",
      verdict: "later",
      state: "pending",
    });
    expect(events[0]).toMatchObject({ kind: "alarm", verdict: "later" });
    open();
    await first;
  });

  it("gets later if the first lapsed: its outcome is unknown", async () => {
    const { till: counter } = till({
      ...compared,
      onFailure: "unknown",
      work: () => {
        throw new Error("cut off");
      },
    });
    await counter.handle({ id: "m1", body: "ten" });
    expect(await counter.handle({ id: "m1", body: "twenty" })).toMatchObject({
      status: "conflict",
      verdict: "later",
    });
  });
});

describe("an unknown outcome", () => {
  it("is held, gets later, and is done-before once an operator has decided", async () => {
    let works = 0;
    const {
      till: counter,
      guard,
      events,
    } = till({
      onLapsed: "hold",
      onFailure: "unknown",
      work: () => {
        works++;
        throw new Error("cut off");
      },
    });
    await counter.handle({ id: "m1" });
    const held = await counter.handle({ id: "m1" });
    expect(held).toMatchObject({ status: "unknown", verdict: "later" });
    expect(events[1]).toMatchObject({ kind: "unknown", verdict: "later" });
    expect(works).toBe(1);
    const subject = { operation: "till", scope: "till", key: "m1" };
    const fence = "fence" in held ? held.fence : 0;
    expect(await guard.resolve({ ...subject, fence }, { status: "done", value: "found" })).toBe(true);
    expect(await counter.handle({ id: "m1" })).toEqual({
      status: "done-before",
      verdict: "acknowledge",
      value: "found",
    });
  });

  it("is taken over by default, with the next attempt number", async () => {
    const numbers: number[] = [];
    const { till: counter } = till({
      onFailure: "unknown",
      work: (_, { number }: Attempt) => {
        numbers.push(number);
        if (number === 1) throw new Error("cut off");
        return "done";
      },
    });
    await counter.handle({ id: "m1" });
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
    expect(numbers).toEqual([1, 2]);
  });
});

describe("a message without a valid key", () => {
  it.each([
    ["has no key", { key: () => undefined }, "key-missing"],
    ["has an empty key", { key: () => "" }, "key-missing"],
    ["has a key that is too long", { key: () => "k".repeat(1_025) }, "key-invalid"],
    ["has no scope where one is to be", { scope: () => "" }, "scope-missing"],
    ["has a scope that is none", { scope: () => undefined as never }, "scope-missing"],
    ["has a fingerprint that is none", { fingerprint: () => () => {} }, "fingerprint-invalid"],
  ])("that %s is refused and rejected, and writes nothing to the store", async (_, options, code) => {
    const { till: counter, store, done, events } = till(options);
    const delivery = await counter.handle({ id: "m1" });
    expect(delivery).toMatchObject({ status: "refused", verdict: "reject", error: { code } });
    expect((await counter.handleBatch([{ id: "m1" }]))[0]).toMatchObject({ status: "refused" });
    expect(done).toEqual([]);
    expect(store.calls.claim).toBe(0);
    expect(events).toHaveLength(2);
    expect(events[0]).toMatchObject({ kind: "refused", verdict: "reject" });
    expect(events[0]).not.toHaveProperty("keyHash");
  });

  it("is refused if the key function throws", async () => {
    const { till: counter } = till({
      key: () => {
        throw new TypeError("no such field");
      },
    });
    expect(await counter.handle({})).toMatchObject({
      status: "refused",
      error: { message: "no such field" },
    });
  });

  it("in a batch is refused, and the others are done", async () => {
    const { till: counter, events } = till({
      key: ({ id }) => (id === "odd" ? (Object.create(null) as string) : id),
    });
    const answers = await counter.handleBatch([{ id: "m1" }, { id: "odd" }, { id: "m2" }]);
    expect(answers.map(({ status }) => status)).toEqual(["done", "refused", "done"]);
    expect(events).toHaveLength(3);
  });
});

describe("consumers", () => {
  it("EV-09 of one message process it once each, since their names are part of the scope", async () => {
    const scene = shop();
    const mail = till({ name: "mail" }, scene);
    const books = till({ name: "books" }, scene);
    for (const counter of [mail, books, mail, books]) await counter.till.handle({ id: "m1" });
    expect(mail.done).toEqual(["m1"]);
    expect(books.done).toEqual(["m1"]);
    expect(await scene.guard.read({ operation: "mail", scope: "mail", key: "m1" })).toBeDefined();
  });

  it("EV-09 are separate under one operation too, whatever their names look like", async () => {
    const scene = shop();
    const one = till({ name: "a|b", operation: "bill" }, scene);
    const other = till({ name: "a", operation: "bill", scope: () => "b" }, scene);
    await one.till.handle({ id: "m1" });
    expect((await other.till.handle({ id: "m1" })).status).toBe("done");
  });

  it("with one name on two guards are one consumer", async () => {
    const scene = shop();
    const here = till({}, scene);
    const there = till({}, scene);
    await here.till.handle({ id: "m1" });
    expect((await there.till.handle({ id: "m1" })).status).toBe("done-before");
  });

  it("keep tenants with equal keys apart", async () => {
    const { till: counter, done } = till({ scope: ({ tenant }) => tenant ?? "" });
    await counter.handle({ id: "m1", tenant: "acme" });
    await counter.handle({ id: "m1", tenant: "emca" });
    expect((await counter.handle({ id: "m1", tenant: "acme" })).status).toBe("done-before");
    expect(done).toEqual(["m1", "m1"]);
  });
});

describe("a batch", () => {
  it("returns a delivery for each message, in order", async () => {
    const { till: counter } = till({
      isPermanent: () => true,
      work: ({ id }) => {
        if (id === "bad") throw new Error("no");
        return `receipt of ${id}`;
      },
    });
    await counter.handle({ id: "old" });
    const answers = await counter.handleBatch([{ id: "new" }, { id: "bad" }, {}, { id: "old" }]);
    expect(answers.map(({ status, verdict }) => [status, verdict])).toEqual([
      ["done", "acknowledge"],
      ["failed", "reject"],
      ["refused", "reject"],
      ["done-before", "acknowledge"],
    ]);
  });

  it("handles messages with one key one after the other: the second is done-before, not pending", async () => {
    const { till: counter, done } = till({
      work: async ({ id, body }) => {
        await Promise.resolve();
        done.push(body ?? "");
        return `${id}: ${body}`;
      },
    });
    const answers = await counter.handleBatch([
      { id: "m1", body: "first" },
      { id: "m2", body: "other" },
      { id: "m1", body: "second" },
      { id: "m1", body: "third" },
    ]);
    expect(answers.map(({ status }) => status)).toEqual(["done", "done", "done-before", "done-before"]);
    expect(done).toEqual(["first", "other"]);
  });

  it("respects its concurrency, and equal keys do not block it", async () => {
    let running = 0;
    let most = 0;
    const { till: counter } = till({
      work: async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 1));
        running--;
        return "done";
      },
    });
    const messages = Array.from({ length: 30 }, (_, at) => ({ id: `m${at % 10}` }));
    const answers = await counter.handleBatch(messages, { concurrency: 3 });
    expect(answers.filter(({ status }) => status === "done")).toHaveLength(10);
    expect(answers.filter(({ status }) => status === "done-before")).toHaveLength(20);
    expect(most).toBe(3);
    expect(await counter.handleBatch([])).toEqual([]);
  });

  it("tries a message again whose duplicate failed earlier in the batch", async () => {
    let works = 0;
    const { till: counter } = till({
      work: () => {
        if (++works === 1) throw new Error("no");
        return "done";
      },
    });
    const answers = await counter.handleBatch([{ id: "m1" }, { id: "m1" }]);
    expect(answers.map(({ status }) => status)).toEqual(["failed", "done"]);
  });

  it("refuses a value that is not a list, and unknown options", async () => {
    const { till: counter } = till();
    await expect(counter.handleBatch("m1" as never)).rejects.toThrow("must be an array");
    await expect(counter.handleBatch([], { concurrncy: 1 } as never)).rejects.toThrow("concurrncy");
  });
});

describe("renewals", () => {
  it("call onRenewed, so that the adapter can tell its broker", async () => {
    const { till: counter } = till({
      leaseMs: 60,
      work: async (_, attempt) => {
        await attempt.renew();
        return "done";
      },
    });
    let renewed = 0;
    await counter.handle({ id: "m1" }, { onRenewed: () => renewed++ });
    expect(renewed).toBeGreaterThanOrEqual(1);
    const of: unknown[] = [];
    await counter.handleBatch([{ id: "m2" }], { onRenewed: ({ id }) => of.push(id) });
    expect(of).toContain("m2");
  });
});

describe("options", () => {
  const good: ConsumerOptions<Message, string> = { name: "till", key: ({ id }) => id, work: () => "done" };

  it.each([
    ["a missing name", { name: undefined }, "name is missing"],
    ["an empty name", { name: "" }, "name is empty"],
    ["a missing key", { key: undefined }, "key is missing"],
    ["a key that is no function", { key: "id" }, "key is"],
    ["missing work", { work: undefined }, "work is missing"],
    ["an option that is unknown", { retentionDays: 3 }, "retentionDays"],
    ["a policy that is wrong", { leaseMs: 1 }, "leaseMs is 1"],
    [
      "policies that contradict each other",
      { reconcile: async () => ({ status: "unknown" }) },
      'onLapsed: "hold"',
    ],
    ["a retry that is wrong", { retry: { max: -1 } }, "max is -1"],
    ["a retry that is no object", { retry: null }, "must be an object"],
    ["a retry with an unknown option", { retry: { tries: 1 } }, "tries"],
    ["maxAttempts of none", { maxAttempts: 0 }, "maxAttempts is 0"],
    ["a laterMs that is negative", { laterMs: -1 }, "laterMs is -1"],
    ["an unknown sender", { sender: "nobody" }, "sender is"],
    [
      "a retention that Stripe outlasts",
      { sender: "stripe", retentionMs: 3 * DAY_MS },
      "give a longer retentionMs",
    ],
    [
      "a retention that is shorter than retryHorizonMs",
      { retryHorizonMs: 1_000, retentionMs: 1_000 },
      "the sender may send",
    ],
  ])("refuse %s", (_, wrong, says) => {
    const { guard } = shop();
    const make = () => consumer(guard, { ...good, ...wrong } as never);
    expect(make).toThrow(says);
    expect(make).toThrow("options-invalid");
  });

  it("have a default retention longer than the sender's retries", async () => {
    for (const sender of Object.keys(RETRY_HORIZONS_MS)) {
      const horizonMs = RETRY_HORIZONS_MS[sender as keyof typeof RETRY_HORIZONS_MS];
      const { till: counter, clock, done } = till({ sender: sender as keyof typeof RETRY_HORIZONS_MS });
      await counter.handle({ id: "m1" });
      clock.advance(horizonMs);
      await counter.handle({ id: "m1" });
      expect(done, sender).toEqual(["m1"]);
    }
    const own = till({ retryHorizonMs: 90 * DAY_MS });
    await own.till.handle({ id: "m1" });
    own.clock.advance(90 * DAY_MS);
    expect((await own.till.handle({ id: "m1" })).status).toBe("done-before");
  });

  it("keep outcomes for thirty days, whatever the guard's default is", async () => {
    const { till: counter, clock } = till({}, shop({ retentionMs: 1_000 }));
    await counter.handle({ id: "m1" });
    clock.advance(30 * DAY_MS - 1);
    expect((await counter.handle({ id: "m1" })).status).toBe("done-before");
    clock.advance(1);
    expect((await counter.handle({ id: "m1" })).status).toBe("done");
  });

  it("type the message and the value", () => {
    const counter = consumer(shop().guard, good);
    expectTypeOf(counter.handle).parameter(0).toEqualTypeOf<Message>();
    expectTypeOf<Awaited<ReturnType<typeof counter.handle>> & { status: "done" }>()
      .toHaveProperty("value")
      .toEqualTypeOf<string>();
  });
});
