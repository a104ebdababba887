/** Tests the SQLite store on a file, in its worker thread. Needs the build, because a worker starts from a JavaScript file. */
import { chmod, mkdir, readdir, rename, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type SqliteStoreOptions, sqliteStore } from "../../dist/stores/sqlite.js";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { MIGRATIONS } from "../../src/stores/sqlite-sql.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases } from "./cases.ts";
import { NEWER_KEYS, newerKeysSql } from "./sqlite/newer-keys.ts";
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
  { without: CLOCK_CANNOT_GO_BACK, row: "SQLite, a file in real time" },
);

const opened: Store[] = [];
afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));

function open(options: Partial<SqliteStoreOptions & { file: string }> = {}): { file: string; store: Store } {
  const file = options.file ?? fileNamed();
  const store = sqliteStore({ ...options, file });
  opened.push(store);
  return { file, store };
}

/** Records the workers that start from now on. */
function startedWorkers(): Worker[] {
  const workers: Worker[] = [];
  const keep = (worker: Worker) => void workers.push(worker);
  process.on("worker", keep);
  onTestFinished(() => void process.off("worker", keep));
  return workers;
}

/** A claim of the same key with another token. */
const other = (key: string) => claimOf(key, { token: "other" });

describe("a store on a file", () => {
  test("uses WAL mode and flushes every commit", async () => {
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

  test("reports that it does not survive a power loss when it flushes only at checkpoints", async () => {
    const { store } = open({ synchronous: "normal" });
    expect(await store.settings?.()).toMatchObject({
      title: expect.stringContaining("synchronous NORMAL"),
      survives: {
        "store-crash": { survives: "yes" },
        "power-loss": { survives: "no", raise: expect.stringContaining('synchronous: "full"') },
      },
    });
  });

  test("locks other processes out when `exclusive` is set", async () => {
    const { file, store } = open({ exclusive: true });
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
    expect(() => connect(file).prepare("SELECT * FROM nevertwice_records").all()).toThrow("locked");
  });

  test("keeps its records when it is closed and opened again", async () => {
    const { file, store } = open();
    await Promise.all([store.claim(claimOf("a")), store.claim(claimOf("b"))]);
    await store.complete(completionOf("a"));
    await store.close();
    const again = open({ file }).store;
    expect(await again.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    expect(await again.claim(other("b"))).toMatchObject({ status: "pending" });
  });
});

describe("messages to the worker", () => {
  test("are two for a first call, one for a replay, and one for all calls of one tick", async () => {
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

  test("take the calls that arrive while a message is in flight in the next one", async () => {
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

  test("carry an outcome once, no matter how many callers wait for it", async () => {
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

  test("are split when the outcomes are too large for one, and every outcome comes back unchanged", async () => {
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

describe("calls in one message", () => {
  test("succeed although one of them cannot be sent or stored", async () => {
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
  test("overtake ten thousand earlier claims, and no lease lapses", async () => {
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
  /** A message that no caller can send: it throws in the worker, and the thread ends. */
  const poison: unknown = null;

  test("rejects its unanswered calls as unavailable, and the next call starts another worker", async () => {
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

  test("before it answered leaves claims that a repeat with the same token finds again", async () => {
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

  test("wakes all waiters, and the next worker watches the records again", async () => {
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

test("a list of one key finds the oldest of many keys", async () => {
  const odd = 'the "oldest", é\u0000 key';
  const { file, store } = open();
  const { id } = claimOf(odd);
  await store.claim(claimOf(odd, { token: "odd" }));
  await store.claim(claimOf("old"));
  connect(file).exec(newerKeysSql("token of old", "old"));
  const find = (key: string, more = {}) => store.list?.({ namespace: "shop", key, limit: 5, ...more });
  expect(await find(odd)).toEqual({ records: [expect.objectContaining({ id })] });
  expect(await find("old")).toMatchObject({ records: [{ id: claimOf("old").id }] });
  expect((await find(`newer-${NEWER_KEYS}`))?.records).toHaveLength(1);
  expect(await find("new")).toEqual({ records: [] });
  expect(await find("old", { scope: "t" })).toEqual({ records: [] });
  expect(await store.list?.({ namespace: "n", key: "old", limit: 5 })).toEqual({ records: [] });
});

describe("a file of another version", () => {
  test("is migrated from the previous version and keeps its records", async () => {
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

  test("is refused and left unchanged if its version is newer", async () => {
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
  test("fails every call until it can be opened", async () => {
    const folder = fileNamed("missing");
    const { store } = open({ file: `${folder}/x.db` });
    const refused = { code: "store-unsafe", message: expect.stringContaining("folder must exist") };
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject(refused);
    await expect(store.complete(completionOf("a"))).rejects.toMatchObject(refused);
    await mkdir(folder);
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new" });
  });

  test("is store-unsafe and not overwritten if it is not a database", async () => {
    const file = fileNamed();
    await writeFile(file, "a shopping list\n".repeat(1_000));
    const { store } = open({ file });
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("not a SQLite database"),
      cause: { message: expect.stringContaining("not a database") },
    });
  });

  test("is store-unsafe if it is a folder", async () => {
    const folder = fileNamed();
    await mkdir(folder);
    await chmod(folder, 0o755);
    await expect(open({ file: folder }).store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
    });
  });

  test("rejects many calls after one attempt to open it, without unhandled rejections", async () => {
    const { store } = open({ file: fileNamed("nowhere/x.db") });
    const answers = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) => store.claim(claimOf(`k${i}`))),
    );
    for (const answer of answers) expect(answer).toMatchObject({ reason: { code: "store-unsafe" } });
  });
});

describe("a file that was changed by hand", () => {
  const columns = ["purge_at", "token", "hold", "outcome", "parts"];
  test.each(columns)(
    "is refused while it lacks the column %s, and works again once the column is back",
    async (column) => {
      const { file, store } = open();
      await store.claim(claimOf("a"));
      await store.close();
      const database = connect(file);
      database.exec("DROP INDEX nevertwice_records_by_purge_at");
      database.exec(`ALTER TABLE nevertwice_records RENAME COLUMN ${column} TO elsewhere`);
      const refused = open({ file }).store;
      for (const call of [
        refused.claim(claimOf("a")),
        refused.read("x"),
        refused.list?.({ namespace: "shop", limit: 1 }),
      ])
        await expect(call).rejects.toMatchObject({
          code: "store-unsafe",
          message: expect.stringMatching(
            new RegExp(`has no ${column} in its table nevertwice_records.* by hand`),
          ),
        });
      database.exec(`ALTER TABLE nevertwice_records RENAME COLUMN elsewhere TO ${column}`);
      expect(await refused.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
    },
  );

  test("works with an additional column", async () => {
    const { file, store } = open();
    await store.claim(claimOf("a"));
    await store.close();
    connect(file).exec("ALTER TABLE nevertwice_records ADD COLUMN note TEXT");
    const again = open({ file }).store;
    expect(await again.complete(completionOf("a"))).toBe(true);
    expect(await again.claim(claimOf("b"))).toMatchObject({ status: "new" });
  });

  test("gets its table again when it is opened after the table was dropped", async () => {
    const { file, store } = open();
    await store.claim(claimOf("a"));
    const database = connect(file);
    database.exec("DROP TABLE nevertwice_records");
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringMatching(/dropped while the store was open; .* restart this process/),
    });
    await store.close();
    expect(await open({ file }).store.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  });

  test("is refused when its schema_version is not a number", async () => {
    const { file, store } = open();
    await store.claim(claimOf("a"));
    await store.close();
    connect(file).exec("UPDATE nevertwice_store SET schema_version = 'two'");
    await expect(open({ file }).store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("no valid schema_version"),
    });
  });

  test("is store-unsafe when an added constraint forbids a claim, and no work runs without its claim", async () => {
    const { file, store } = open();
    await store.claim(claimOf("a"));
    connect(file).exec(
      "CREATE TRIGGER refuses BEFORE INSERT ON nevertwice_records BEGIN SELECT RAISE(ABORT, 'closed for today'); END",
    );
    const guard = createGuard({ store, namespace: "shop", onUnavailable: "proceed" });
    let runs = 0;
    await expect(guard.run({ operation: "o", key: "b" }, () => runs++)).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("closed for today"),
    });
    expect(runs).toBe(0);
    await guard.close();
  });

  test.each(["removed", "replaced"])(
    "is refused when it was %s while the store is open, until it is put back",
    async (how) => {
      const { file, store } = open();
      await store.claim(claimOf("a"));
      await store.complete(completionOf("a"));
      for (const end of ["", "-wal", "-shm"]) await rename(`${file}${end}`, `${file}.away${end}`);
      if (how === "replaced") await open({ file }).store.claim(claimOf("b"));
      await expect(store.claim(other("a"))).rejects.toMatchObject({
        code: "store-unsafe",
        message: expect.stringContaining("removed or replaced while the store was open"),
      });
      await Promise.all(opened.splice(1).map((each) => each.close()));
      for (const end of ["", "-wal", "-shm"]) await rename(`${file}.away${end}`, `${file}${end}`);
      expect(await store.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    },
  );
});

describe("while another connection keeps the file locked", () => {
  test("cancelled calls do not pile up, and calls succeed as soon as the lock is released", {
    timeout: 60_000,
  }, async () => {
    const { file, store } = open();
    await store.claim(claimOf("warm"));
    const sent = vi.spyOn((await import("node:worker_threads")).Worker.prototype, "postMessage");
    const blocker = connect(file);
    blocker.exec("BEGIN IMMEDIATE");
    const rounds: Promise<unknown>[] = [];
    // Three times as long as one message may wait for the lock.
    const until = performance.now() + 12_000;
    for (let i = 0; performance.now() < until; i++) {
      rounds.push(store.claim(claimOf(`k${i}`)).catch((error: { code: string }) => error.code));
      await sleep(10);
    }
    // Only one message at a time is in the thread; calls that are still queued here can be dropped.
    expect(sent.mock.calls.length).toBeLessThan(6);
    blocker.exec("ROLLBACK");
    expect(await store.claim(claimOf("after"))).toMatchObject({ status: "new" });
    const answers = await Promise.all(rounds);
    expect(answers.filter((answer) => answer === "unavailable").length).toBeGreaterThan(0);
  });
});

describe("while the disk is slow", () => {
  test("the event loop keeps running, and the claim is answered later", async () => {
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
  test("waits for open calls, releases the file, and refuses later calls", async () => {
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

  test("does not start a worker for a store that was never used", async () => {
    const workers = startedWorkers();
    await open().store.close();
    expect(workers).toHaveLength(0);
  });
});
