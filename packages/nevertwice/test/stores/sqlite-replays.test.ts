/**
 * Tests the replays that a SQLite store on a file answers in the caller's thread (src/stores/sqlite/replay-reader.ts). Needs the
 * build, because a worker starts from a JavaScript file.
 */
import { readdir, rename } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, test, vi } from "vitest";
import { directStore } from "../../build/core/direct-store.js";
import { createGuard as createBuiltGuard } from "../../build/index.js";
import { type SqliteFileOptions, sqliteStore } from "../../build/stores/sqlite.js";
import { toIdentity } from "../../src/core/identity.ts";
import type { ClaimRequest, Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/index.ts";
import { locateDriver } from "../../src/stores/open/driver.ts";
import { fileIdentity } from "../../src/stores/sqlite/opened-file.ts";
import { createReplayRate } from "../../src/stores/sqlite/replay-rate.ts";
import { createReplayReader, type ReplayReader } from "../../src/stores/sqlite/replay-reader.ts";
import { CLOCK_CANNOT_GO_BACK, describeStoreCases } from "./cases.ts";
import {
  claimOf,
  completionOf,
  connectionsBeside,
  LEASE_MS,
  RETENTION_MS,
  scratchFiles,
} from "./sqlite/scratch.ts";
import { warmReplays, withFrequentReplays } from "./sqlite/warm-replays.ts";

const fileNamed = scratchFiles();
const connect = connectionsBeside();

let shared: Store | undefined;
describeStoreCases(
  "sqliteStore({ file }) while replays are frequent",
  () => {
    shared ??= withFrequentReplays(sqliteStore({ file: fileNamed("cases.db") }));
    return { store: shared, dispose() {} };
  },
  { without: CLOCK_CANNOT_GO_BACK },
);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0)) await close();
});

function open(options: Partial<SqliteFileOptions> = {}): { file: string; store: Store } {
  const file = options.file ?? fileNamed();
  const store = sqliteStore({ ...options, file });
  closers.push(() => store.close());
  return { file, store };
}

async function complete(store: Store, key: string, more: Partial<ClaimRequest> = {}): Promise<void> {
  await store.claim(claimOf(key, more));
  await store.complete(completionOf(key));
}

const other = (key: string, more: Partial<ClaimRequest> = {}) => claimOf(key, { token: "other", ...more });

/** Counts the calls in the messages to workers from now on. */
function callsToWorkers(): () => number {
  const messages = vi.spyOn(Worker.prototype, "postMessage");
  return () =>
    messages.mock.calls.reduce((sum, [message]) => sum + (message[0] === "run" ? message[1].length : 0), 0);
}

describe("replays", () => {
  test("are answered without a message to the worker while they are frequent", async () => {
    const { store } = open();
    await complete(store, "a");
    await warmReplays(store);
    const calls = callsToWorkers();
    for (let i = 0; i < 10; i++)
      expect(await store.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(0);
  });

  test("are one message each while they are rare", async () => {
    const { store } = open();
    await complete(store, "a");
    const calls = callsToWorkers();
    for (let i = 0; i < 10; i++) await store.claim(other("a"));
    expect(calls()).toBe(10);
  });

  test("see at once what another store on the file completed and reopened", async () => {
    const { file, store } = open();
    const beside = open({ file }).store;
    await warmReplays(store);
    await complete(beside, "a");
    const calls = callsToWorkers();
    expect(await store.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(0);
    const { id } = claimOf("a");
    const { fence } = (await beside.read(id)) as { fence: number };
    expect(await beside.forget?.({ id, fence, reopen: true })).toBe(true);
    expect(await store.claim(other("a"))).toMatchObject({ status: "new" });
  });

  test("of large outcomes go to the worker, which sends one copy for all callers", async () => {
    const { store } = open();
    await store.claim(claimOf("a"));
    const outcome = "x".repeat(65_537);
    await store.complete(completionOf("a", outcome));
    await warmReplays(store);
    const calls = callsToWorkers();
    expect(await store.claim(other("a"))).toEqual({ status: "completed", outcome });
    expect(calls()).toBe(1);
  });

  test("of one turn of the event loop are read in two turns, and the rest in the worker", async () => {
    const { store } = open();
    await warmReplays(store);
    // On a slow machine the time of a turn would be used up first.
    vi.spyOn(performance, "now").mockReturnValue(performance.now());
    const calls = callsToWorkers();
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => store.claim(other("warm"))));
    for (const answer of answers) expect(answer).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(1_000 - 512);
  });

  test("do not starve timers, however many follow each other", async () => {
    const { store } = open();
    await warmReplays(store);
    let isOver = false;
    setTimeout(() => {
      isOver = true;
    }, 1);
    let replays = 0;
    while (!isOver && replays < 100_000) {
      await store.claim(other("warm"));
      replays++;
    }
    expect(isOver).toBe(true);
  });

  test("give a guard the same answers as the worker", async () => {
    const { store } = open();
    await warmReplays(store);
    const guard = createGuard({ store, namespace: "shop" });
    const request = { operation: "charge", key: "k", fingerprint: { amount: 1 } };
    expect(await guard.run(request, () => ({ paid: 1 }))).toEqual({ paid: 1 });
    await warmReplays(store, "again");
    const calls = callsToWorkers();
    expect(await guard.run(request, () => ({ paid: 2 }))).toEqual({ paid: 1 });
    expect(calls()).toBe(0);
    await expect(guard.run({ ...request, fingerprint: { amount: 2 } }, () => 0)).rejects.toMatchObject({
      code: "conflict",
    });
    await guard.close();
  });
});

/** A guard of the same build as the store, so that it can ask the store for direct answers. */
describe("a guard", () => {
  test("gets replays directly, and none that the worker has to answer", async () => {
    const { store } = open();
    await complete(store, "a");
    expect(directStore(store)?.claim(other("a"))).toBeUndefined();
    await warmReplays(store);
    expect(directStore(store)?.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    expect(directStore(store)?.claim(other("b"))).toBeUndefined();
    expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
  });

  test("gets no direct answer from a store that closes once its last call is answered", async () => {
    const { store } = open();
    await warmReplays(store);
    const last = store.claim(claimOf("a"));
    const closed = store.close();
    expect(directStore(store)?.claim(other("warm"))).toBeUndefined();
    expect(await last).toMatchObject({ status: "new" });
    await closed;
  });

  test("runs work once and replays it, more often than a turn has reads", async () => {
    const { store } = open();
    await warmReplays(store);
    const guard = createBuiltGuard({ store, namespace: "shop" });
    const request = (key: number) => ({ operation: "charge", key: `${key}`, fingerprint: { key } });
    const work = vi.fn(async (key: number) => ({ paid: key }));
    const keys = Array.from({ length: 600 }, (_, key) => key);
    for (let lap = 0; lap < 3; lap++) {
      const answers = await Promise.all(keys.map((key) => guard.run(request(key), () => work(key))));
      expect(answers).toEqual(keys.map((key) => ({ paid: key })));
    }
    expect(work).toHaveBeenCalledTimes(keys.length);
    await expect(guard.run({ ...request(1), fingerprint: { key: 2 } }, () => 0)).rejects.toMatchObject({
      code: "conflict",
    });
    await guard.close();
  });
});

describe("first calls", () => {
  test("take two messages, with or without frequent replays", async () => {
    const { store } = open();
    await warmReplays(store);
    const calls = callsToWorkers();
    await complete(store, "a");
    expect(calls()).toBe(2);
  });

  test("are no longer looked up once they are more than half of the claims", async () => {
    const { store } = open();
    await warmReplays(store);
    await Promise.all(Array.from({ length: 64 }, (_, i) => store.claim(claimOf(`k${i}`))));
    const calls = callsToWorkers();
    expect(await store.claim(other("warm"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(1);
  });
});

describe("the connection for replays", () => {
  test("does not keep a checkpoint from truncating the log", async () => {
    const { file, store } = open();
    await warmReplays(store);
    await complete(store, "a");
    await store.claim(other("a"));
    const beside = connect(file).prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    expect(beside).toMatchObject({ busy: 0, log: 0 });
  });

  test("is closed before the worker's, so that the log is removed", async () => {
    const { file, store } = open();
    await warmReplays(store);
    await store.close();
    const left = (await readdir(dirname(file))).filter((name) => name.startsWith(basename(file)));
    expect(left).toEqual([basename(file)]);
    await expect(store.claim(other("warm"))).rejects.toMatchObject({ code: "unavailable" });
  });

  test("is not opened when the file is locked for others", async () => {
    const { store } = open({ exclusive: true });
    await warmReplays(store);
    const calls = callsToWorkers();
    expect(await store.claim(other("warm"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(1);
  });

  test("is opened again after the worker died", async () => {
    const { store } = open();
    const workers: Worker[] = [];
    const keep = (worker: Worker) => void workers.push(worker);
    process.on("worker", keep);
    await warmReplays(store);
    process.off("worker", keep);
    const ended = new Promise((resolve) => workers[0]?.once("exit", resolve));
    workers[0]?.postMessage(null);
    await ended;
    const calls = callsToWorkers();
    expect(await store.claim(other("warm"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(1);
    await warmReplays(store);
    const before = calls();
    expect(await store.claim(other("warm"))).toEqual({ status: "completed", outcome: "done" });
    expect(calls()).toBe(before);
  });

  test.each(["removed", "replaced"])("answers nothing from a file that was %s", async (how) => {
    const { file, store } = open();
    await warmReplays(store);
    for (const end of ["", "-wal", "-shm"]) await rename(`${file}${end}`, `${file}.away${end}`);
    if (how === "replaced") await complete(open({ file }).store, "b");
    await expect(store.claim(other("warm"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("removed or replaced while the store was open"),
    });
  });

  test("leaves damaged records and a dropped table to the worker, which reports them", async () => {
    const { file, store } = open();
    await warmReplays(store);
    const database = connect(file);
    database.exec("UPDATE nevertwice_records SET hold = 7");
    await expect(store.claim(other("warm"))).rejects.toMatchObject({ code: "store-unsafe" });
    database.exec("UPDATE nevertwice_records SET hold = 0");
    expect(await store.claim(other("warm"))).toMatchObject({ status: "completed" });
    database.exec("DROP TABLE nevertwice_records");
    await expect(store.claim(other("warm"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("dropped while the store was open"),
    });
  });
});

describe("the rate of replays", () => {
  test("is high after 22 replays in a row, and low after as many other claims", () => {
    const rate = createReplayRate();
    const add = (count: number, isReplay: boolean) => {
      for (let i = 0; i < count; i++) rate.add(isReplay);
      return rate.isHigh();
    };
    expect(add(21, true)).toBe(false);
    expect(add(1, true)).toBe(true);
    expect(add(1_000, true)).toBe(true);
    expect(add(21, false)).toBe(true);
    expect(add(1, false)).toBe(false);
  });

  test("stays low while every third claim is a replay", () => {
    const rate = createReplayRate();
    for (let i = 0; i < 10_000; i++) {
      rate.add(i % 3 === 0);
      expect(rate.isHigh()).toBe(false);
    }
  });
});

describe("the reader", () => {
  /** The location of the SQLite that the worker uses. */
  const driver = process.getBuiltinModule("node:sqlite")
    ? "node:sqlite"
    : locateDriver("@photostructure/sqlite");

  /** A reader of its own on the store's file, whose next claims are looked up. */
  async function readerOf(file: string): Promise<ReplayReader> {
    const reader = createReplayReader({ file, exclusive: false, synchronous: "full" });
    closers.unshift(reader.close);
    reader.allow({ identity: fileIdentity(file), driver });
    for (let i = 0; i < 64; i++) reader.learn(true);
    await vi.waitUntil(() => reader.claim(other("sure")) !== undefined);
    return reader;
  }

  async function openWithReader(): Promise<{ store: Store; file: string; reader: ReplayReader }> {
    const { file, store } = open();
    await complete(store, "sure");
    return { file, store, reader: await readerOf(file) };
  }

  test("answers only completed records", async () => {
    const { store, reader } = await openWithReader();
    await store.claim(claimOf("pending"));
    await store.claim(claimOf("released"));
    await store.abandon({ ...claimOf("released"), as: "released" });
    await store.claim(claimOf("lapsed"));
    await store.abandon({ ...claimOf("lapsed"), as: "unknown" });
    for (const key of ["absent", "pending", "released", "lapsed"]) {
      expect(reader.claim(other(key))).toBeUndefined();
      expect(reader.claim(claimOf(key))).toBeUndefined();
    }
    expect(reader.claim(other("sure"))).toEqual({ status: "completed", outcome: "done" });
  });

  test("answers until the retention ends, and not longer", async () => {
    const { store, reader } = await openWithReader();
    await complete(store, "a");
    const { keptUntil } = (await store.read(claimOf("a").id)) as { keptUntil: number };
    expect(keptUntil).toBeGreaterThan(Date.now() + RETENTION_MS - LEASE_MS);
    vi.useFakeTimers({ toFake: ["Date"], now: keptUntil - 1 });
    expect(reader.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
    vi.setSystemTime(keptUntil);
    expect(reader.claim(other("a"))).toBeUndefined();
  });

  test("compares fingerprints", async () => {
    const { store, reader } = await openWithReader();
    await complete(store, "a", { fingerprint: "1:one" });
    expect(reader.claim(other("a", { fingerprint: "1:two" }))).toBeUndefined();
    expect(reader.claim(other("a", { fingerprint: "1:one" }))).toMatchObject({ status: "completed" });
    expect(reader.claim(other("a"))).toMatchObject({ status: "completed" });
  });

  test("does not look again for what it has just looked for in vain", async () => {
    const { store, reader } = await openWithReader();
    expect(reader.claimNow(other("a"))).toBeUndefined();
    await complete(store, "a");
    expect(reader.claim(other("a"))).toBeUndefined();
    expect(reader.claim(other("a"))).toEqual({ status: "completed", outcome: "done" });
  });

  test("sees each commit, also in the middle of many reads, and lets go of the log after them", async () => {
    const { file, reader } = await openWithReader();
    const database = connect(file);
    const outcome = (text: string) => database.exec(`UPDATE nevertwice_records SET outcome = '${text}'`);
    for (let i = 0; i < 10; i++) {
      outcome(`${i}`);
      expect(reader.claimNow(other("sure"))).toEqual({ status: "completed", outcome: `${i}` });
    }
    await Promise.resolve();
    const checkpoint = database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    expect(checkpoint).toMatchObject({ busy: 0, log: 0 });
  });

  test("closes in the middle of many reads", async () => {
    const { store, file, reader } = await openWithReader();
    for (let i = 0; i < 10; i++) expect(reader.claimNow(other("sure"))).toBeDefined();
    reader.close();
    await store.close();
    const left = (await readdir(dirname(file))).filter((name) => name.startsWith(basename(file)));
    expect(left).toEqual([basename(file)]);
  });

  test("keeps identities apart", async () => {
    const { reader } = await openWithReader();
    const { parts } = claimOf("sure");
    expect(reader.claim(other("sure", toIdentity({ ...parts, scope: "t" })))).toBeUndefined();
  });

  test("answers nothing after it was closed, and opens nothing that closes while it opens", async () => {
    const { file, reader } = await openWithReader();
    reader.close();
    expect(reader.claim(other("sure"))).toBeUndefined();
    reader.allow({ identity: fileIdentity(file), driver });
    expect(reader.claim(other("sure"))).toBeUndefined();
    reader.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(reader.claim(other("sure"))).toBeUndefined();
  });

  test.each([
    ["another file", { identity: "1 1", driver }],
    ["a driver that cannot be loaded", { identity: undefined, driver: "file:///nowhere.js" }],
    ["a driver whose place is not known", { identity: undefined, driver: undefined }],
  ])("answers nothing with %s", async (_, { identity, driver: from }) => {
    const { file, store } = open();
    await complete(store, "a");
    const reader = createReplayReader({ file, exclusive: false, synchronous: "full" });
    closers.unshift(reader.close);
    reader.allow({ identity: identity ?? fileIdentity(file), driver: from });
    for (let i = 0; i < 64; i++) reader.learn(true);
    void reader.claim(other("a"));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(reader.claim(other("a"))).toBeUndefined();
  });
});
