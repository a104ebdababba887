/** Tests reservations in a SQLite file: in their worker thread, and from several processes. Needs the build. */
import { mkdir, readdir } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Worker } from "node:worker_threads";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { createReservations, type ReservationStore } from "../../dist/reservations/index.js";
import { type SqliteReservationsOptions, sqliteReservations } from "../../dist/reservations/sqlite.js";
import { sqliteStore } from "../../dist/stores/sqlite.js";
import { reservationStoreSuite } from "../reservations/store-suite.ts";
import { startProcess } from "./sqlite/child-process.ts";
import { claimOf, commitsIn, connectionsBeside, scratchFiles } from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connectionsBeside();
const BUILD = new URL("../../dist/", import.meta.url).href;
const CHILD = fileURLToPath(new URL("sqlite/reservations-child.js", import.meta.url));
const HOUR_MS = 3_600_000;

reservationStoreSuite("sqlite, { file }", async () => {
  const store = sqliteReservations({ file: fileNamed("suite.db") });
  return { store: store as never, close: store.close };
});

const stores: ReservationStore[] = [];
afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));

function open(options: Partial<Extract<SqliteReservationsOptions, { file: string }>> = {}) {
  const { file = fileNamed() } = options;
  const store = sqliteReservations({ ...options, file });
  stores.push(store);
  const seats = createReservations({
    store,
    namespace: "air",
    windowMs: HOUR_MS,
    actionMs: 60_000,
    purgeEveryMs: 0,
  });
  return { file, store, seats };
}

const hold = (key: string, more: object = {}) => ({
  resource: `seat ${key}`,
  requester: "ann",
  durationMs: 60_000,
  key,
  ...more,
});

/** The workers started from now on. */
function startedWorkers(): Worker[] {
  const workers: Worker[] = [];
  const keep = (worker: Worker) => void workers.push(worker);
  process.on("worker", keep);
  onTestFinished(() => void process.off("worker", keep));
  return workers;
}

describe("a group of actions", () => {
  test("of 64 is one message and one flush; its retry is one message and no flush", async () => {
    const workers = startedWorkers();
    const { file, store, seats } = open();
    await store.elapsed("air", 1);
    const messages = vi.spyOn(workers[0] as Worker, "postMessage");
    const before = await commitsIn(file);
    const ask = () => Promise.all(Array.from({ length: 64 }, (_, i) => seats.placeHold(hold(`k${i}`))));
    const answers = await ask();
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(messages).toHaveBeenCalledTimes(1);
    expect((await commitsIn(file)) - before).toBe(1);
    expect(await ask()).toEqual(answers);
    expect(messages).toHaveBeenCalledTimes(2);
    expect((await commitsIn(file)) - before).toBe(1);
  });

  test("is judged by the time at which it got the lock: a confirm that waited past expiresAt is too late", async () => {
    const { file, store, seats } = open();
    const placed = await seats.placeHold(hold("a", { durationMs: 50 }));
    const id = placed.ok ? placed.id : "";
    const { expiresAt = 0 } = (await seats.get(id)) ?? {};
    const lock = connect(file);
    lock.exec("BEGIN IMMEDIATE");
    const confirmed = seats.confirm({ id, key: "confirm" });
    while ((await store.now()) <= expiresAt) await sleep(10);
    lock.exec("ROLLBACK");
    expect(await confirmed).toMatchObject({ ok: false, reason: "window-elapsed" });
  });

  test("does not block the event loop while it waits for the disk", async () => {
    const { file, store, seats } = open();
    await store.elapsed("air", 1);
    const lock = connect(file);
    lock.exec("BEGIN IMMEDIATE");
    const placed = seats.placeHold(hold("a"));
    for (let turns = 0; turns < 50; turns++) await sleep(1);
    lock.exec("ROLLBACK");
    expect(await placed).toMatchObject({ ok: true });
  });
});

test("a parameter that cannot be sent to a thread or written to a file is rejected as invalid-request, and the answer is stored", async () => {
  const { seats } = open();
  const circular: Record<string, unknown> = {};
  circular.itself = circular;
  const odd = [1n, Symbol("seat"), () => "seat", circular, { deep: 1n }, new Date(0), Number.NaN, null];
  const ask = () =>
    Promise.all(
      odd.map((resource, i) =>
        seats.placeHold({ ...hold(`k${i}`), resource: resource as unknown as string }),
      ),
    );
  const answers = await ask();
  for (const answer of answers) expect(answer).toMatchObject({ ok: false, reason: "invalid-request" });
  expect(await ask()).toEqual(answers);
  expect(await seats.placeHold(hold("k0"))).toMatchObject({ ok: false, reason: "token-collision" });
});

describe("a custom availability", () => {
  test("is rejected by createReservations, with an alternative", () => {
    const { store } = open();
    const make = () => createReservations({ store, windowMs: HOUR_MS, available: () => true });
    expect(make).toThrow(/available does not work with this store: .*worker thread.*\{ database \}/);
  });
});

describe("a worker that dies", () => {
  /** A message that makes the worker throw, so that its thread ends. */
  const poison: unknown = null;
  const RULES = {
    namespace: "air",
    windowMs: HOUR_MS,
    historyMs: 0,
    maxDurationMs: HOUR_MS,
    available: undefined,
  };
  const asked = {
    action: "placeHold",
    parameters: { resource: "1A", requester: "ann", durationMs: 60_000, units: 1 },
    digest: `1:${"0".repeat(64)}`,
    keyId: "k",
    namespace: "air",
    scope: "",
    key: "k",
    newId: "first",
    salt: "salt",
  } as const;

  test("before a transaction began is reported as not written; the next call starts a new worker", async () => {
    const workers = startedWorkers();
    const { store } = open();
    await store.elapsed("air", 1);
    workers[0]?.postMessage(poison);
    // The worker took one message, which may have been that of the first call.
    expect(await Promise.allSettled([1, 2].map(() => store.transact([asked], RULES)))).toMatchObject([
      { reason: { name: "MayBeWritten", answers: [], cause: { code: "unavailable" } } },
      { reason: { name: "NotWritten", cause: { code: "unavailable" } } },
    ]);
    expect(await store.transact([asked], RULES)).toEqual([{ ok: true, id: "first" }]);
    expect(workers).toHaveLength(2);
  });

  test("before it answered is reported as unknown, and the key then returns the answer", async () => {
    const workers = startedWorkers();
    const { file, store } = open();
    await store.elapsed("air", 1);
    const [worker] = workers as [Worker];
    worker.removeAllListeners("message");
    const group = store.transact([asked], RULES).catch((error) => error);
    const rows = connect(file).prepare("SELECT id FROM nevertwice_commitments");
    await vi.waitUntil(() => rows.all().length === 1, 10_000);
    worker.postMessage(poison);
    expect(await group).toMatchObject({
      name: "MayBeWritten",
      answers: [],
      cause: { code: "unavailable" },
    });
    expect(await store.transact([{ ...asked, newId: "second" }], RULES)).toEqual([{ ok: true, id: "first" }]);
    expect(rows.all()).toHaveLength(1);
  });

  test("is not visible to callers of actions: each action is retried with its key", async () => {
    const workers = startedWorkers();
    const { file, store, seats } = open();
    await store.elapsed("air", 1);
    workers[0]?.postMessage(poison);
    const answers = await Promise.all(Array.from({ length: 64 }, (_, i) => seats.placeHold(hold(`k${i}`))));
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(connect(file).prepare("SELECT id FROM nevertwice_commitments").all()).toHaveLength(64);
  });

  test("rejects pending reads with unavailable", async () => {
    const workers = startedWorkers();
    const { store } = open();
    await store.elapsed("air", 1);
    workers[0]?.postMessage(poison);
    await expect(store.get("air", "x")).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("the file", () => {
  test("may also contain the store of a guard", async () => {
    const { file, seats } = open();
    const guarded = sqliteStore({ file });
    const [claimed, placed] = await Promise.all([guarded.claim(claimOf("a")), seats.placeHold(hold("a"))]);
    expect([claimed, placed]).toMatchObject([{ status: "new" }, { ok: true }]);
    await guarded.close();
  });

  test("keeps its records when it is closed and opened again, and is unlocked", async () => {
    const { file, store, seats } = open();
    const answers = Promise.all(Array.from({ length: 200 }, (_, i) => seats.placeHold(hold(`k${i}`))));
    const first = await answers;
    await store.close();
    await store.close();
    const left = (await readdir(dirname(file))).filter((name) => name.startsWith(basename(file)));
    expect(left).toEqual([basename(file)]);
    await expect(store.elapsed("air", 1)).rejects.toMatchObject({ code: "unavailable" });
    const again = open({ file }).seats;
    expect(await Promise.all(first.map((_, i) => again.placeHold(hold(`k${i}`))))).toEqual(first);
  });

  test("is closed after pending calls are answered", async () => {
    const { store } = open();
    const asked = store.elapsed("air", 1);
    const closed = store.close();
    expect(await asked).toEqual([]);
    await closed;
  });

  test("is locked with exclusive, and flushed as synchronous says", async () => {
    const { file, store, seats } = open({ exclusive: true, synchronous: "normal" });
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
    expect(() => connect(file).prepare("SELECT * FROM nevertwice_commitments").all()).toThrow("locked");
    expect(await store.settings?.()).toMatchObject({
      title: expect.stringContaining("synchronous NORMAL"),
      survives: { "power-loss": { survives: "no" } },
    });
  });

  test("that cannot be opened fails every action until it can be opened", async () => {
    const folder = fileNamed("missing");
    const { seats } = open({ file: `${folder}/x.db` });
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: false, reason: "storage-failure" });
    await mkdir(folder);
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
  });
});

const start = (act: string, file: string, ...more: readonly string[]) =>
  startProcess([CHILD, act, BUILD, file, ...more]);

describe("two processes on one file", () => {
  test("that use the same keys at the same time get the same answers, and each hold is placed once", async () => {
    const file = fileNamed();
    const children = ["left", "right"].map(() => start("contend", file, "300"));
    for (const child of children) expect(await child.next()).toBe("ready");
    for (const child of children) child.process.stdin?.write("go\n");
    const [left, right] = await Promise.all(
      children.map((child) => child.next<{ ok: boolean; id: string }[]>()),
    );
    expect(left?.every(({ ok }) => ok)).toBe(true);
    expect(right).toEqual(left);
    for (const child of children) expect(await child.ended).toEqual({ code: 0, complaint: "" });
    expect(connect(file).prepare("SELECT id FROM nevertwice_commitments").all()).toHaveLength(300);
  });

  test("that are killed leave only complete transactions, and everything that was answered", async () => {
    const { file, seats, store } = open();
    await seats.resources.declare({ resource: "pool", capacity: 1_000_000, key: "declare" });
    const answered: string[] = [];
    for (let round = 0; round < 3; round++) {
      const children = ["left", "right"].map((who) => start("flood", file, `${who} ${round}`));
      for (const child of children) answered.push(await child.next());
      await sleep(20 * round);
      for (const child of children) child.process.kill("SIGKILL");
      // The last line may be incomplete.
      for (const child of children)
        for (const line of await child.rest()) if (/^"[^"]+"$/.test(line)) answered.push(JSON.parse(line));
    }
    const database = connect(file);
    const one = (text: string) => Object.values(database.prepare(text).get())[0];
    const taken = one("SELECT taken FROM nevertwice_resources WHERE name = 'pool'");
    expect(taken).toBe(one("SELECT coalesce(sum(occupied), 0) FROM nevertwice_commitments"));
    const kept = new Set(
      database
        .prepare("SELECT id FROM nevertwice_commitments")
        .all()
        .map((row) => (row as { id: string }).id),
    );
    expect(answered.filter((id) => !kept.has(id))).toEqual([]);
    expect(
      one(
        "SELECT count(*) FROM nevertwice_commitments c WHERE c.events <> (SELECT count(*) FROM nevertwice_reservation_events e WHERE e.namespace = c.namespace AND e.subject = 'commitment:' || c.id)",
      ),
    ).toBe(0);
    expect(
      one(
        "SELECT count(*) FROM nevertwice_reservation_checkpoints c WHERE c.events <> (SELECT count(*) FROM nevertwice_reservation_events e WHERE e.checkpoint = c.id)",
      ),
    ).toBe(0);
    expect(
      one(
        "SELECT count(*) FROM nevertwice_reservation_events e WHERE e.key_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM nevertwice_reservation_keys k WHERE k.namespace = e.namespace AND k.id = e.key_id)",
      ),
    ).toBe(0);
    expect(one("PRAGMA integrity_check")).toBe("ok");
    expect(await store.elapsed("air", 1)).toEqual([]);
  });
});

test("a process exits by itself even if its reservations were never closed", async () => {
  const child = start("leave", fileNamed());
  expect(await child.next()).toMatchObject({ ok: true });
  expect(await child.ended).toEqual({ code: 0, complaint: "" });
});
