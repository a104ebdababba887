/** Tests that jobs of a real BullMQ queue run once, despite duplicates, failures and stalled workers. */
import { randomUUID } from "node:crypto";
import { type Job, Queue, Worker, type WorkerOptions } from "bullmq";
import { describe, expect, type TestContext, test, vi } from "vitest";
import { bullmqProcessor, jobKey } from "../../src/events/bullmq.ts";
import { type ConsumerEvent, type ConsumerOptions, consumer } from "../../src/events/index.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/index.ts";
import { deferred } from "../deferred.ts";
import { sharedUrl } from "../services/services.ts";

const WAIT = { timeout: 15_000, interval: 20 };
const until = (check: () => unknown) => vi.waitFor(check, WAIT);

interface Order {
  readonly order: string;
}
type OrderJob = Job<Order, string | undefined>;

function scene(context: TestContext) {
  const url = new URL(sharedUrl(context, "redis"));
  const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
  const name = `orders-${randomUUID()}`;
  const store = faultyStore(memoryStore());
  const guard = createGuard({ store });
  const ran: string[] = [];
  const events: ConsumerEvent[] = [];
  const errors: Error[] = [];
  const queue = new Queue<Order, string | undefined>(name, { connection });
  context.onTestFinished(() => queue.close());

  function work(
    handler: Partial<ConsumerOptions<OrderJob, string>> = {},
    options: Partial<WorkerOptions> = {},
  ) {
    const shop = consumer<OrderJob, string>(guard, {
      name: "shop",
      key: ({ data }) => data.order,
      work: ({ data }) => {
        ran.push(data.order);
        return `receipt of ${data.order}`;
      },
      laterMs: 50,
      onEvent: (event) => events.push(event),
      ...handler,
    });
    const worker = new Worker<Order, string | undefined>(name, bullmqProcessor(shop), {
      connection,
      ...options,
    });
    worker.on("error", (error) => errors.push(error));
    context.onTestFinished(() => worker.close(true));
    return worker;
  }

  async function ended({ id = "" }: { id?: string | undefined }) {
    await until(async () => expect(["completed", "failed"]).toContain(await queue.getJobState(id)));
    const job = (await queue.getJob(id)) as Job<Order, string | undefined>;
    return { state: await job.getState(), job };
  }

  return { name, store, queue, ran, events, errors, work, ended };
}

describe("a job", () => {
  test("returns its value, and a duplicate returns the stored value", async (context) => {
    const { queue, work, ended, ran } = scene(context);
    work();
    const first = await ended(await queue.add("order", { order: "17" }));
    const second = await ended(await queue.add("order", { order: "17" }));
    expect(first.job.returnvalue).toBe("receipt of 17");
    expect(second.job.returnvalue).toBe("receipt of 17");
    expect(second.job.id).not.toBe(first.job.id);
    expect(ran).toEqual(["17"]);
  });

  test("that stalled does not run twice while its first worker lives, and returns the first worker's value", async (context) => {
    const { queue, work, ended, ran, events, errors } = scene(context);
    const { promise: opened, resolve: finish } = deferred();
    const slow = {
      work: async ({ data }: OrderJob) => {
        ran.push(data.order);
        await opened;
        return `receipt of ${data.order}`;
      },
    };
    // The first worker lives, but does not renew its lock.
    const first = work(slow, { skipLockRenewal: true, lockDuration: 200, skipStalledCheck: true });
    await first.waitUntilReady();
    const added = await queue.add("order", { order: "17" });
    await until(() => expect(ran).toEqual(["17"]));
    const second = work(slow, { stalledInterval: 100 });
    const stalled = vi.fn();
    second.on("stalled", stalled);
    await until(() => expect(events.map(({ kind }) => kind)).toContain("pending"));
    expect(stalled).toHaveBeenCalled();
    finish();
    const { state, job } = await ended(added);
    expect([state, job.returnvalue]).toEqual(["completed", "receipt of 17"]);
    expect(ran).toEqual(["17"]);
    expect(events.map(({ kind }) => kind)).toContain("done-before");
    // The result that the first worker could no longer report to BullMQ.
    expect(errors.map(({ message }) => message).join()).toMatch(/lock/i);
  });

  test("that fails is retried as often as BullMQ's attempts allow", async (context) => {
    const { queue, work, ended, ran } = scene(context);
    work({
      work: ({ data }, { number }) => {
        ran.push(`${data.order} ${number}`);
        if (number < 3) throw new Error("not yet");
        return "done at last";
      },
    });
    const kept = await ended(await queue.add("order", { order: "17" }, { attempts: 3 }));
    expect([kept.state, kept.job.returnvalue, kept.job.attemptsMade]).toEqual([
      "completed",
      "done at last",
      3,
    ]);
    expect(ran).toEqual(["17 1", "17 2", "17 3"]);
    const given = await ended(await queue.add("order", { order: "18" }, { attempts: 2 }));
    expect([given.state, given.job.failedReason, given.job.attemptsMade]).toEqual(["failed", "not yet", 2]);
  });

  test("that is rejected fails immediately, with the reason", async (context) => {
    const { queue, work, ended, ran } = scene(context);
    work({
      isPermanent: () => true,
      work: ({ data }) => {
        ran.push(data.order);
        throw new Error("no such customer");
      },
    });
    const { state, job } = await ended(await queue.add("order", { order: "17" }, { attempts: 5 }));
    expect([state, job.failedReason, job.attemptsMade]).toEqual(["failed", "no such customer", 1]);
    expect(ran).toEqual(["17"]);
  });

  test("that has no key fails immediately", async (context) => {
    const { queue, work, ended } = scene(context);
    work({ key: () => undefined });
    const { state, job } = await ended(await queue.add("order", { order: "17" }, { attempts: 5 }));
    expect([state, job.attemptsMade]).toEqual(["failed", 1]);
    expect(job.failedReason).toContain("key-missing");
  });

  test("is delayed while the store is down, and uses up no attempt", async (context) => {
    const { queue, work, ended, store, events, ran } = scene(context);
    store.setRates({ refuse: 1 });
    work({ storeTimeoutMs: 20 });
    const added = await queue.add("order", { order: "17" });
    await until(() => expect(events.filter(({ kind }) => kind === "unavailable").length).toBeGreaterThan(2));
    store.setRates({});
    const { state, job } = await ended(added);
    expect([state, job.attemptsMade]).toEqual(["completed", 1]);
    expect(job.attemptsStarted).toBeGreaterThan(2);
    expect(ran).toEqual(["17"]);
  });
});

describe("the key of a job", () => {
  test("is its jobId: removed and added again, it is the same", async (context) => {
    const { queue, work, ended, ran } = scene(context);
    work({ key: jobKey });
    const first = await ended(await queue.add("order", { order: "17" }, { jobId: "order-17" }));
    await first.job.remove();
    const again = await ended(await queue.add("order", { order: "17" }, { jobId: "order-17" }));
    expect(again.job.returnvalue).toBe("receipt of 17");
    expect(ran).toEqual(["17"]);
  });

  test("includes the time for a numbered job, since numbers repeat after obliterate", async (context) => {
    const { queue, work, ended, ran } = scene(context);
    work({ key: jobKey });
    const first = await ended(await queue.add("order", { order: "17" }));
    await queue.obliterate({ force: true });
    const second = await ended(await queue.add("order", { order: "18" }));
    expect(second.job.id).toBe(first.job.id);
    expect(second.job.returnvalue).toBe("receipt of 18");
    expect(ran).toEqual(["17", "18"]);
  });
});
