/** The SQLite store on a file, in its worker thread. Needs the build: a worker is started from a file, not from source. */
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type SqliteStoreOptions, sqliteStore } from "../../dist/stores/sqlite.js";
import type { Store } from "../../src/core/store.ts";
import { MIGRATIONS } from "../../src/stores/sqlite-sql.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases } from "./cases.ts";
import {
  claimOf,
  commitsIn,
  completionOf,
  connectionsBeside,
  LEASE_MS,
  RETENTION_MS,
  scratchFiles,
} from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connectionsBeside();

let shared: Store | undefined;
describeStoreCases(
  "sqliteStore({ file })",
  () => {
    shared ??= sqliteStore({ file: fileNamed("cases.db") });
    return { store: shared, dispose() {} };
  },
  { without: CLOCK_CANNOT_GO_BACK },
);

const opened: Store[] = [];
afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));

function open(options: Partial<SqliteStoreOptions & { file: string }> = {}): { file: string; store: Store } {
  const file = options.file ?? fileNamed();
  const store = sqliteStore({ ...options, file });
  opened.push(store);
  return { file, store };
}

/** The workers that are started from now on. */
function startedWorkers(): Worker[] {
  const workers: Worker[] = [];
  const keep = (worker: Worker) => void workers.push(worker);
  process.on("worker", keep);
  onTestFinished(() => void process.off("worker", keep));
  return workers;
}

/** A record that somebody else's claim finds pending, or worse. */
const other = (key: string) => claimOf(key, { token: "other" });

describe("the file", () => {
  test("is in WAL mode, and every commit is flushed", async () => {
    const { file, store } = open();
    expect(await store.settings?.()).toMatchObject({
      title: expect.stringContaining("WAL, synchronous FULL"),
      survives: {
        "our-crash": { survives: "yes" },
        "store-crash": { survives: "yes" },
        "power-loss": { survives: "yes" },
        failover: { survives: "no" },
      },
    });
    expect(connect(file).prepare("PRAGMA journal_mode").get()).toEqual({ journal_mode: "wal" });
  });

  test("may be flushed at checkpoints alone, and then says that a power loss is not survived", async () => {
    const { store } = open({ synchronous: "normal" });
    expect(await store.settings?.()).toMatchObject({
      title: expect.stringContaining("synchronous NORMAL"),
      survives: {
        "store-crash": { survives: "yes" },
        "power-loss": { survives: "no", raise: expect.stringContaining('synchronous: "full"') },
      },
    });
  });

  test("is one process's alone if that was asked for", async () => {
    const { file, store } = open({ exclusive: true });
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
    expect(() => connect(file).prepare("SELECT * FROM nevertwice_records").all()).toThrow("locked");
  });

  test("keeps what was written when it is closed and opened again", async () => {
    const { file, store } = open();
    await Promise.all([store.claim(claimOf("a")), store.claim(claimOf("b"))]);
    await store.complete(completionOf("a"));
    await store.close();
    const again = open({ file }).store;
    expect(await again.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    expect(await again.claim(other("b"))).toMatchObject({ status: "pending" });
  });
});

describe("trips to the worker", () => {
  test("are two for a first call, one for a replay, and one for all calls of a tick", async () => {
    const workers = startedWorkers();
    const { file, store } = open();
    await store.read("nothing");
    const messages = vi.spyOn(workers[0] as Worker, "postMessage");
    await store.claim(claimOf("a"));
    await store.complete(completionOf("a"));
    expect(messages).toHaveBeenCalledTimes(2);
    await store.claim(other("a"));
    expect(messages).toHaveBeenCalledTimes(3);
    const before = await commitsIn(file);
    await Promise.all(Array.from({ length: 100 }, (_, i) => store.claim(claimOf(`k${i}`))));
    expect(messages).toHaveBeenCalledTimes(4);
    expect((await commitsIn(file)) - before).toBe(1);
  });

  test("what comes while a message is under way goes in the next one", async () => {
    const workers = startedWorkers();
    const { file, store } = open();
    await store.read("nothing");
    const messages = vi.spyOn(workers[0] as Worker, "postMessage");
    const lock = connect(file);
    lock.exec("BEGIN IMMEDIATE");
    const claims = [store.claim(claimOf("first"))];
    for (let i = 0; i < 50; i++) {
      await sleep(1);
      claims.push(store.claim(claimOf(`k${i}`)));
    }
    expect(messages).toHaveBeenCalledTimes(1);
    lock.exec("ROLLBACK");
    expect((await Promise.all(claims)).every(({ status }) => status === "new")).toBe(true);
    expect(messages).toHaveBeenCalledTimes(2);
  });

  test("carry an outcome once, however many wait for it", async () => {
    const workers = startedWorkers();
    const { store } = open();
    const outcome = "x".repeat(1_048_576);
    await store.claim(claimOf("a"));
    await store.complete(completionOf("a", outcome));
    const replies: unknown[] = [];
    (workers[0] as Worker).on("message", (message) => replies.push(message));
    const answers = await Promise.all(Array.from({ length: 400 }, () => store.claim(other("a"))));
    expect(answers.every((answer) => answer.status === "completed" && answer.outcome === outcome)).toBe(true);
    expect(replies).toHaveLength(1);
    expect(replies[0]).toMatchObject(["done", { outcomes: [outcome] }]);
  });

  test("are several for outcomes that are too large for one, and each comes back as it was", async () => {
    const workers = startedWorkers();
    const { store } = open();
    const keys = Array.from({ length: 30 }, (_, i) => `k${i}`);
    const outcomeOf = (key: string) => `${key} `.repeat(300_000);
    await Promise.all(keys.map((key) => store.claim(claimOf(key))));
    await Promise.all(keys.map((key) => store.complete(completionOf(key, outcomeOf(key)))));
    const lengths: number[] = [];
    (workers[0] as Worker).on("message", ([kind, reply]) => {
      if (kind === "done") lengths.push(reply.outcomes.join("").length);
    });
    const answers = await Promise.all(keys.map((key) => store.claim(other(key))));
    for (const [i, key] of keys.entries())
      expect(answers[i]).toEqual({ status: "completed", outcome: outcomeOf(key) });
    expect(Math.max(...lengths)).toBeLessThan(10_000_000);
  });
});

describe("a neighbour", () => {
  test("that cannot be sent or kept hurts nobody else", async () => {
    const { store } = open();
    await Promise.all(["a", "b"].map((key) => store.claim(claimOf(key))));
    const unsendable = { length: 1, toString: () => "x", f() {} } as unknown as string;
    const answers = await Promise.allSettled([
      store.complete(completionOf("a", unsendable)),
      store.complete(completionOf("b", "cut\u0000here")),
      store.claim(claimOf("c")),
      store.claim(claimOf("d")),
    ]);
    expect(answers).toMatchObject([
      { status: "rejected", reason: { name: "DataCloneError" } },
      { status: "rejected", reason: { code: "options-invalid" } },
      { status: "fulfilled", value: { status: "new" } },
      { status: "fulfilled", value: { status: "new" } },
    ]);
    expect(await store.complete(completionOf("b"))).toBe(true);
  });
});

describe("renewals", () => {
  test("go before ten thousand claims that came first, and none lapses", async () => {
    const { store } = open();
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
    await Promise.all(keys.map((key) => store.claim(claimOf(key))));
    let claimed = 0;
    const claims = Array.from({ length: 10_000 }, (_, i) =>
      store.claim(claimOf(`crowd ${i}`)).then(() => claimed++),
    );
    await sleep(1);
    const renewals = keys.map(async (key) => {
      const { id, token } = claimOf(key);
      return { isRenewed: await store.renew({ id, token, leaseMs: LEASE_MS }), claimed };
    });
    for (const renewal of await Promise.all(renewals)) {
      expect(renewal.isRenewed).toBe(true);
      expect(renewal.claimed).toBeLessThan(3_000);
    }
    await Promise.all(claims);
  });
});

describe("a worker that dies", () => {
  /** Nobody can send it this: it throws, and the thread ends. */
  const poison: unknown = null;

  test("rejects the calls that it did not do as unavailable, and the next call starts another", async () => {
    const workers = startedWorkers();
    const { store } = open();
    await store.read("nothing");
    workers[0]?.postMessage(poison);
    const keys = Array.from({ length: 300 }, (_, i) => `k${i}`);
    for (const answer of await Promise.allSettled(keys.map((key) => store.claim(claimOf(key)))))
      expect(answer).toMatchObject({ reason: { code: "unavailable", retryable: true } });
    const repeated = await Promise.all(keys.map((key) => store.claim(claimOf(key))));
    for (const answer of repeated) expect(answer).toMatchObject({ status: "new", number: 1 });
    expect(workers).toHaveLength(2);
  });

  test("before it told what it did leaves claims that their own tokens find again", async () => {
    const workers = startedWorkers();
    const { file, store } = open();
    await store.read("nothing");
    const [worker] = workers as [Worker];
    worker.removeAllListeners("message");
    const claims = Promise.allSettled(["a", "b"].map((key) => store.claim(claimOf(key))));
    const fences = connect(file).prepare("SELECT fence FROM nevertwice_records");
    await vi.waitUntil(() => fences.all().length === 2);
    worker.postMessage(poison);
    expect(await claims).toMatchObject([{ reason: { code: "unavailable" } }, { reason: {} }]);
    for (const [i, { fence }] of fences.all().entries())
      expect(await store.claim(claimOf(["a", "b"][i] as string))).toMatchObject({
        status: "new",
        number: 1,
        fence,
      });
    expect(await store.claim(other("a"))).toMatchObject({ status: "pending" });
  });

  test("wakes whoever waits, so that they look for themselves, and the next one looks out for them", async () => {
    const workers = startedWorkers();
    const { file, store } = open();
    const { id } = claimOf("a");
    await store.claim(claimOf("a"));
    const wake = vi.fn();
    await store.watch?.({ id, wake });
    workers[0]?.postMessage(poison);
    await vi.waitUntil(() => wake.mock.calls.length > 0);
    expect(await store.read(id)).toMatchObject({ state: "pending" });
    wake.mockClear();
    await open({ file }).store.complete(completionOf("a"));
    await vi.waitUntil(() => wake.mock.calls.length > 0);
  });
});

describe("a file of another time", () => {
  test("of the version before is brought up to date, and its records stay", async () => {
    const file = fileNamed();
    const { id, token } = claimOf("a");
    const before = connect(file);
    before.exec(MIGRATIONS[0] as string);
    before.exec("UPDATE nevertwice_store SET schema_version = 1, last_fence = 4000000000000000");
    const now = Date.now();
    before
      .prepare(
        `INSERT INTO nevertwice_records (id, purge_at, state, token, spent, fence, number, hold, took_over, claimed_at,
           lease_ms, lease_ends_at, retention_ms, kept_until, parts)
         VALUES (?, ?, 'pending', ?, 0, 4000000000000000, 3, 0, 1, ?, ?, ?, ?, ?, '["shop","s","charge","a"]')`,
      )
      .run(
        Buffer.from(id, "hex"),
        now + 2 * RETENTION_MS,
        token,
        now,
        LEASE_MS,
        now + LEASE_MS,
        RETENTION_MS,
        now + LEASE_MS + RETENTION_MS,
      );
    const { store } = open({ file });
    expect(await store.read(id)).toMatchObject({ state: "pending", number: 3, parts: claimOf("a").parts });
    expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new", fence: 4_000_000_000_000_001 });
    const index = connect(file).prepare("SELECT name FROM sqlite_master WHERE name LIKE '%purge_at'");
    expect(index.all()).toHaveLength(1);
  });

  test("of a newer version is refused, and left alone", async () => {
    const { file, store } = open();
    await store.claim(claimOf("a"));
    await store.close();
    connect(file).exec("UPDATE nevertwice_store SET schema_version = 99");
    await expect(open({ file }).store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("newer version"),
    });
  });
});

describe("a file that cannot be used", () => {
  test("is told to the first call, and again to the next, until it can", async () => {
    const folder = fileNamed("missing");
    const { store } = open({ file: `${folder}/x.db` });
    const refused = { code: "store-unsafe", message: expect.stringContaining("folder must exist") };
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject(refused);
    await expect(store.complete(completionOf("a"))).rejects.toMatchObject(refused);
    await mkdir(folder);
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
  });

  test("that is no database is store-unsafe, and is not overwritten", async () => {
    const file = fileNamed();
    await writeFile(file, "a shopping list\n".repeat(1_000));
    const { store } = open({ file });
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("no SQLite database"),
      cause: { message: expect.stringContaining("not a database") },
    });
  });

  test("that is a folder is store-unsafe", async () => {
    const folder = fileNamed();
    await mkdir(folder);
    await chmod(folder, 0o755);
    await expect(open({ file: folder }).store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
    });
  });

  test("rejects many calls at once with one opening, and nothing is left unhandled", async () => {
    const { store } = open({ file: fileNamed("nowhere/x.db") });
    const answers = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) => store.claim(claimOf(`k${i}`))),
    );
    for (const answer of answers) expect(answer).toMatchObject({ reason: { code: "store-unsafe" } });
  });
});

describe("while the disk is slow", () => {
  test("the event loop goes on, and the claim is answered when it can be", async () => {
    const { file, store } = open();
    await store.read("nothing");
    const lock = connect(file);
    lock.exec("BEGIN IMMEDIATE");
    const claim = store.claim(claimOf("a"));
    let turns = 0;
    for (const until = performance.now() + 200; performance.now() < until; turns++) await sleep(1);
    lock.exec("ROLLBACK");
    expect(await claim).toMatchObject({ status: "new" });
    expect(turns).toBeGreaterThan(20);
  });
});

describe("close", () => {
  test("waits for the calls under way, releases the file, and refuses the calls after it", async () => {
    const { file, store } = open();
    const claims = Promise.all(Array.from({ length: 1_200 }, (_, i) => store.claim(claimOf(`k${i}`))));
    const closed = store.close();
    await expect(store.claim(claimOf("late"))).rejects.toMatchObject({ code: "unavailable" });
    expect((await claims).length).toBe(1_200);
    await closed;
    await store.close();
    const name = file.slice(file.lastIndexOf("/") + 1);
    const left = (await readdir(file.slice(0, file.lastIndexOf("/")))).filter((each) =>
      each.startsWith(name),
    );
    expect(left).toEqual([name]);
    connect(file).exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK");
  });

  test("of a store that was never used starts nothing", async () => {
    const workers = startedWorkers();
    await open().store.close();
    expect(workers).toHaveLength(0);
  });
});
