/**
 * Tests the recipes of examples/recipes/queues with the real queues: a worker is killed before its effect, after it, and after
 * the guard has kept the outcome; and a producer sends one order twice. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import BeeQueue from "bee-queue";
import { Queue } from "bullmq";
import { makeWorkerUtils } from "graphile-worker";
import PgBoss from "pg-boss";
import { describe, expect, type TestContext, test } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { startRedis } from "../services/redis.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { createDatabase, query } from "../stores/postgres/database.ts";
import { startProcess } from "../stores/sqlite/child-process.ts";

const POLL_MS = 100;
/** A queue gives the job of a killed worker to another one only after a while. */
const TIMEOUT_MS = 300_000;
const WORKER = fileURLToPath(new URL("queue-recipes-worker.js", import.meta.url));

interface OpenQueue {
  /** Adds a job, and returns its id. */
  add(order: string): Promise<string>;
  isCompleted(job: string): Promise<boolean>;
  /** What makes the queue give the job of a killed worker to another one. */
  recover?(): Promise<void>;
}

interface Recipe {
  readonly name: string;
  /** The URL of a server of this test's own. */
  serve(context: TestContext): Promise<string>;
  open(url: string, context: TestContext): Promise<OpenQueue>;
}

const postgresOf = (context: TestContext) => createDatabase(sharedUrl(context, "postgres"));
const redisOf = async (context: TestContext) => (await startFor(context, () => startRedis())).url;

const PG_BOSS: Recipe = {
  name: "pg-boss",
  serve: postgresOf,
  async open(url, { onTestFinished }) {
    const boss = new PgBoss({ connectionString: url, supervise: false });
    boss.on("error", () => {});
    await boss.start();
    onTestFinished(() => boss.stop({ graceful: false }));
    await boss.createQueue("orders");
    const timing = { expireInSeconds: 3, retryLimit: 100, retryDelay: 1 };
    return {
      add: async (order) => (await boss.send("orders", { order, cents: 4_200 }, timing)) ?? "",
      isCompleted: async (id) => (await boss.getJobById("orders", id))?.state === "completed",
      // Its workers do this every two minutes.
      recover: () => boss.expire(),
    };
  },
};

const GRAPHILE: Recipe = {
  name: "graphile-worker",
  serve: postgresOf,
  async open(url, { onTestFinished }) {
    const workers = await makeWorkerUtils({ connectionString: url });
    onTestFinished(async () => void (await workers.release()));
    await workers.migrate();
    const lockedBy = () =>
      query<{ locked_by: string }>(
        url,
        "SELECT locked_by FROM graphile_worker.jobs WHERE locked_by IS NOT NULL",
      );
    let dead: readonly string[] | undefined;
    return {
      add: async (order) => (await workers.addJob("charge", { order, cents: 4_200 })).id,
      isCompleted: async (id) =>
        (await query(url, `SELECT 1 FROM graphile_worker.jobs WHERE id = ${Number(id)}`)).length === 0,
      async recover() {
        // Once: later locks belong to the worker that took over.
        dead ??= (await lockedBy()).map((row) => row.locked_by);
        await workers.forceUnlockWorkers([...dead]);
      },
    };
  },
};

const BEE_QUEUE: Recipe = {
  name: "bee-queue",
  serve: redisOf,
  async open(url, { onTestFinished }) {
    const queue = new BeeQueue("orders", {
      redis: { url },
      isWorker: false,
      getEvents: false,
      storeJobs: false,
    });
    queue.on("error", () => {});
    onTestFinished(async () => void (await queue.close()));
    return {
      async add(order) {
        const job = queue.createJob({ order, cents: 4_200 }).retries(100).backoff("fixed", 500);
        return (await job.save()).id;
      },
      isCompleted: async (id) => (await queue.getJob(id)).status === "succeeded",
    };
  },
};

const BULLMQ: Recipe = {
  name: "bullmq",
  serve: redisOf,
  async open(url, { onTestFinished }) {
    const queue = new Queue("orders", { connection: { url } });
    queue.on("error", () => {});
    onTestFinished(() => queue.close());
    return {
      add: async (order) => (await queue.add("order", { order, cents: 4_200 }, { attempts: 100 })).id ?? "",
      isCompleted: async (id) => (await queue.getJobState(id)) === "completed",
    };
  },
};

async function scene(recipe: Recipe, context: TestContext) {
  const url = await recipe.serve(context);
  const queue = await recipe.open(url, context);
  const ledger = join(await scratchFolder(context), "ledger");
  return {
    queue,
    start: (kill: "before" | "after" | "kept" | "never") =>
      startProcess([WORKER, recipe.name, url, ledger, kill]),
    /** Resolves when the queue has completed the job. The test's own timeout is the limit. */
    async completed(job: string, { recovers = true } = {}) {
      while (!(await queue.isCompleted(job))) {
        if (recovers) await queue.recover?.();
        await setTimeout(POLL_MS);
      }
    },
    /** The calls that reached the provider, and the charges that it made of them: one for each key. */
    async charges() {
      const calls = (await readFile(ledger, "utf8")).trim().split("\n");
      return { calls: calls.length, made: new Set(calls).size };
    },
  };
}

const RECIPES = [PG_BOSS, GRAPHILE, BEE_QUEUE, BULLMQ];

describe.each(RECIPES)("the recipe for $name", { timeout: TIMEOUT_MS }, (recipe) => {
  test.for([
    ["before its charge", "before", 1],
    ["after its charge", "after", 2],
    ["before the queue knows of the outcome", "kept", 1],
  ] as const)("charges once when the worker is killed %s", async ([, kill, calls], context) => {
    const { queue, start, completed, charges } = await scene(recipe, context);
    const job = await queue.add(`order-${randomUUID()}`);
    await start(kill).ended;
    expect(await queue.isCompleted(job)).toBe(false);
    start("never");
    await completed(job);
    expect(await charges()).toEqual({ calls, made: 1 });
  });

  test("charges once for an order that its producer sent twice", async (context) => {
    const { queue, start, completed, charges } = await scene(recipe, context);
    const jobs = [await queue.add("order-17"), await queue.add("order-17")];
    expect(jobs[0]).not.toBe(jobs[1]);
    start("never");
    for (const job of jobs) await completed(job);
    expect(await charges()).toEqual({ calls: 1, made: 1 });
  });
});

test("graphile-worker keeps the job of a killed worker locked, until its worker is unlocked", {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const { queue, start, completed, charges } = await scene(GRAPHILE, context);
  const job = await queue.add("order-17");
  await start("before").ended;
  start("never");
  await completed(await queue.add("order-18"), { recovers: false });
  expect(await queue.isCompleted(job)).toBe(false);
  await completed(job);
  expect(await charges()).toEqual({ calls: 2, made: 2 });
});
