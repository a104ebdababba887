/** The SQLite store on a connection of the caller, with a manual clock. */
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { type SqliteStoreOptions, sqliteStore } from "../../src/stores/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { describeStoreCases } from "./cases.ts";
import {
  claimOf,
  commitsIn,
  completionOf,
  connections,
  LEASE_MS,
  RETENTION_MS,
  scratchFiles,
} from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connections();

describeStoreCases(
  "sqliteStore({ database })",
  () => {
    const clock = manualClock();
    return { store: sqliteStore({ database: new DatabaseSync(":memory:"), clock }), advance: clock.advance };
  },
  { row: "SQLite" },
);

describeStoreCases("sqliteStore({ database }) on a connection that reads bigints", () => {
  const clock = manualClock();
  const database = new DatabaseSync(":memory:", { readBigInts: true });
  return { store: sqliteStore({ database, clock }), advance: clock.advance };
});

function inWal(): { file: string; database: DatabaseSyncInstance } {
  const file = fileNamed();
  const database = connect(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;");
  return { file, database };
}

function rowsIn(database: DatabaseSyncInstance): number {
  return database.prepare("SELECT count(*) AS rows FROM nevertwice_records").get().rows;
}

describe("inside a transaction of the caller", () => {
  test("a claim is refused, because a ROLLBACK could undo it, and nothing is written", async () => {
    const { database } = inWal();
    const store = sqliteStore({ database });
    await store.read("nothing");
    database.exec("BEGIN; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    await expect(store.claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("open transaction"),
    });
    expect(rowsIn(database)).toBe(0);
    database.exec("COMMIT");
    expect(database.prepare("SELECT x FROM theirs").get()).toEqual({ x: 1 });
    expect(await store.claim(claimOf("a"))).toMatchObject({ status: "new", number: 1 });
  });

  test("the tables are not created", async () => {
    const { database } = inWal();
    database.exec("BEGIN");
    await expect(sqliteStore({ database }).claim(claimOf("a"))).rejects.toMatchObject({
      code: "store-unsafe",
    });
    database.exec("COMMIT");
    expect(database.prepare("SELECT count(*) AS tables FROM sqlite_master").get()).toEqual({ tables: 0 });
  });

  test("a replay is refused, because the outcome that it reads could be rolled back", async () => {
    const { database } = inWal();
    const store = sqliteStore({ database });
    await store.claim(claimOf("a"));
    await store.complete(completionOf("a"));
    database.exec("BEGIN");
    await expect(store.claim(claimOf("a", { token: "other" }))).rejects.toMatchObject({
      code: "store-unsafe",
    });
    database.exec("COMMIT");
  });
});

describe("the caller's connection", () => {
  test("stays open when the store is closed, and keeps its user_version", async () => {
    const { database } = inWal();
    database.exec("PRAGMA user_version = 37");
    const store = sqliteStore({ database });
    await store.claim(claimOf("a"));
    await store.close();
    await expect(store.claim(claimOf("b"))).rejects.toMatchObject({ code: "unavailable" });
    expect(database.prepare("PRAGMA user_version").get()).toEqual({ user_version: 37 });
  });

  test("makes the store unavailable when it is closed", async () => {
    const database = new DatabaseSync(":memory:");
    const store = sqliteStore({ database });
    await store.claim(claimOf("a"));
    database.close();
    await expect(store.claim(claimOf("b"))).rejects.toMatchObject({ code: "unavailable" });
  });

  test("makes the store unavailable while another connection holds the lock, and writes once it is released", async () => {
    const { file, database } = inWal();
    database.exec("PRAGMA busy_timeout = 30");
    const store = sqliteStore({ database });
    await store.claim(claimOf("a"));
    const other = connect(file);
    other.exec("BEGIN IMMEDIATE");
    await expect(store.claim(claimOf("b"))).rejects.toMatchObject({ code: "unavailable" });
    expect(await store.claim(claimOf("a", { token: "other" }))).toMatchObject({ status: "pending" });
    other.exec("ROLLBACK");
    expect(await store.claim(claimOf("b"))).toMatchObject({ status: "new" });
  });

  test("is refused when it is read-only", async () => {
    const { file, database } = inWal();
    await sqliteStore({ database }).claim(claimOf("a"));
    const readOnly = new DatabaseSync(file, { readOnly: true });
    const store = sqliteStore({ database: readOnly });
    expect(await store.claim(claimOf("a", { token: "other" }))).toMatchObject({ status: "pending" });
    await expect(store.claim(claimOf("b"))).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("read-only"),
    });
    readOnly.close();
  });

  test("fails each call with store-full when the file has no room left", async () => {
    const { database } = inWal();
    const store = sqliteStore({ database });
    await store.claim(claimOf("a"));
    database.exec("PRAGMA max_page_count = 20");
    const outcome = "x".repeat(200_000);
    const answers = await Promise.allSettled([
      store.complete(completionOf("a", outcome)),
      store.claim(claimOf("b")),
      store.claim(claimOf("a", { token: "other" })),
    ]);
    expect(answers).toMatchObject([
      { status: "rejected", reason: { code: "store-full", retryable: true } },
      { status: "fulfilled", value: { status: "new" } },
      { status: "fulfilled", value: { status: "pending" } },
    ]);
    expect(await store.complete(completionOf("a", "short"))).toBe(true);
  });
});

describe("calls of one tick", () => {
  test("are one commit, and one of a hundred claims of one key is new", async () => {
    const { file, database } = inWal();
    const store = sqliteStore({ database });
    await store.read("nothing");
    const before = await commitsIn(file);
    const claims = Array.from({ length: 200 }, (_, i) =>
      store.claim(claimOf(`k${i % 2 === 0 ? i : "same"}`, { token: `t${i}` })),
    );
    const statuses = (await Promise.all(claims)).map(({ status }) => status);
    expect(statuses.filter((status) => status === "new").length).toBe(101);
    expect((await commitsIn(file)) - before).toBe(1);
  });

  test("fail separately: a value that cannot be bound, contains U+0000 or is too big fails only its own call", async () => {
    const { file, database } = inWal();
    const store = sqliteStore({ database });
    const keys = ["a", "b", "c", "d", "e"];
    await Promise.all(keys.map((key) => store.claim(claimOf(key))));
    database.limits.length = 10_000;
    const before = await commitsIn(file);
    const answers = await Promise.allSettled([
      store.complete(completionOf("a", "x".repeat(20_000))),
      store.complete(completionOf("b")),
      store.complete(completionOf("c", "cut\u0000here")),
      store.claim(claimOf("new", { token: undefined as unknown as string })),
      store.complete(completionOf("d")),
      store.claim(claimOf("e", { token: "other" })),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([
      "rejected",
      "fulfilled",
      "rejected",
      "rejected",
      "fulfilled",
      "fulfilled",
    ]);
    expect((await commitsIn(file)) - before).toBe(1);
    for (const key of ["b", "d"])
      expect(await store.claim(claimOf(key, { token: "other" }))).toMatchObject({ status: "completed" });
    for (const key of ["a", "c"])
      expect(await store.claim(claimOf(key, { token: "other" }))).toMatchObject({ status: "pending" });
  });
});

describe("calls that write nothing", () => {
  test("commit nothing: replays, refused claims, conflicts, reads, lists and empty purges", async () => {
    const { file, database } = inWal();
    const store = sqliteStore({ database });
    await Promise.all([store.claim(claimOf("a", { fingerprint: "1:a" })), store.claim(claimOf("b"))]);
    await store.complete(completionOf("a"));
    const before = await commitsIn(file);
    const other = connect(file);
    // Another connection holds the write lock during these calls, so none of them can need it.
    other.exec("BEGIN IMMEDIATE");
    const answers = await Promise.all([
      store.claim(claimOf("a", { token: "other" })),
      store.claim(claimOf("a", { token: "other", fingerprint: "1:b" })),
      store.claim(claimOf("b", { token: "other" })),
      store.read(claimOf("b").id),
      store.list?.({ namespace: "shop", limit: 10 }),
      store.purge(10),
      store.renew({ id: claimOf("b").id, token: "other", leaseMs: LEASE_MS }),
    ]);
    other.exec("ROLLBACK");
    expect(answers).toMatchObject([
      { status: "completed", outcome: "done" },
      { status: "conflict", state: "completed" },
      { status: "pending" },
      { state: "pending" },
      { records: [{}, {}] },
      { removed: 0, more: false },
      false,
    ]);
    expect(await commitsIn(file)).toBe(before);
  });
});

describe("the fence", () => {
  test("is one sequence per file: it grows across purges, stores and a clock that goes back", async () => {
    const { file, database } = inWal();
    const fenceOf = async (key: string, now: number) => {
      const store = sqliteStore({ database: connect(file), clock: { now: () => now } });
      const answer = await store.claim(claimOf(key, { token: `${key} ${now}` }));
      return answer.status === "new" ? answer.fence : 0;
    };
    sqliteStore({ database });
    const now = 1_700_000_000_000;
    expect(await fenceOf("a", now)).toBe(1_700_000_000_000_000);
    const later = sqliteStore({ database, clock: { now: () => now + 10 * RETENTION_MS } });
    expect(await later.purge(10)).toEqual({ removed: 1, more: false });
    expect(await fenceOf("b", now - 60_000)).toBe(1_700_000_000_000_001);
    expect(await fenceOf("c", now + 1)).toBe(1_700_000_000_001_000);
  });
});

describe("purge", () => {
  test("never reads held records, and a renewal or completion does not change its index", async () => {
    const { database } = inWal();
    const clock = manualClock();
    const store = sqliteStore({ database, clock });
    const purgeAt = () => database.prepare("SELECT purge_at FROM nevertwice_records ORDER BY rowid").all();
    await store.claim(claimOf("held", { hold: true }));
    await store.claim(claimOf("kept"));
    const before = purgeAt();
    expect(before[0]).toEqual({ purge_at: null });
    clock.advance(LEASE_MS / 3);
    const { id, token } = claimOf("kept");
    expect(await store.renew({ id, token, leaseMs: LEASE_MS })).toBe(true);
    expect(await store.complete(completionOf("kept"))).toBe(true);
    expect(purgeAt()).toEqual(before);
    clock.advance(10 * RETENTION_MS);
    expect(await store.purge(1)).toEqual({ removed: 1, more: true });
    expect(await store.purge(1)).toEqual({ removed: 0, more: false });
    expect(await store.complete(completionOf("held"))).toBe(true);
    expect(purgeAt()).not.toContainEqual({ purge_at: null });
    clock.advance(2 * RETENTION_MS);
    expect(await store.purge(1)).toEqual({ removed: 1, more: true });
  });

  test.each([
    ["behind it", 1],
    ["in front of it", 0],
  ] as const)("leaves a claim of an expired key that is %s in the same commit", async (place, removed) => {
    const { database } = inWal();
    const clock = manualClock();
    const store = sqliteStore({ database, clock });
    await store.claim(claimOf("a"));
    clock.advance(10 * RETENTION_MS);
    const claim = () => store.claim(claimOf("a", { token: "next" }));
    const purge = () => store.purge(10);
    const [purged, claimed] =
      place === "behind it"
        ? await Promise.all([purge(), claim()])
        : (await Promise.all([claim(), purge()])).toReversed();
    expect(purged).toEqual({ removed, more: false });
    expect(claimed).toMatchObject({ status: "new", number: 1 });
    expect(await store.read(claimOf("a").id)).toMatchObject({ state: "pending", token: "next" });
  });

  test("removes a key as soon as its outcome expires, although its claim asked for a longer retention", async () => {
    const { database } = inWal();
    const clock = manualClock();
    const store = sqliteStore({ database, clock });
    await store.claim(claimOf("a"));
    await store.complete({ ...completionOf("a"), retentionMs: 1_000 });
    clock.advance(1_100);
    expect(await store.purge(10)).toEqual({ removed: 1, more: false });
  });
});

describe("a list", () => {
  test("finds a few records among many, page by page, and shows no forgotten ones", async () => {
    const clock = manualClock();
    const store = sqliteStore({ database: new DatabaseSync(":memory:"), clock });
    const rare = (i: number) => ({ namespace: "rare", scope: "s", operation: "o", key: `k${i}` });
    await Promise.all(Array.from({ length: 2_000 }, (_, i) => store.claim(claimOf(`k${i}`))));
    await Promise.all(
      [1, 2, 3, 4, 5].map((i) => store.claim(claimOf(`k${i}`, { id: `rare ${i}`, parts: rare(i) }))),
    );
    await store.complete({ ...completionOf("k3"), id: "rare 3" });
    const forgotten = await store.read("rare 3");
    expect(await store.forget?.({ id: "rare 3", fence: forgotten?.fence as number })).toBe(true);
    const first = await store.list?.({ namespace: "rare", limit: 2 });
    expect(first?.records.map(({ id }) => id)).toEqual(["rare 5", "rare 4"]);
    const second = await store.list?.({ namespace: "rare", limit: 2, after: first?.next });
    expect(second?.records.map(({ id }) => id)).toEqual(["rare 2", "rare 1"]);
    expect(second).not.toHaveProperty("next");
    const all = await store.list?.({ namespace: "shop", limit: 10_000 });
    expect(new Set(all?.records.map(({ id }) => id)).size).toBe(2_000);
  });
});

describe("ids", () => {
  test("stay distinct for any string, whether it looks like a digest or not", async () => {
    const store = sqliteStore({ database: new DatabaseSync(":memory:") });
    const digest = "0123456789abcdef".repeat(4);
    const ids = [
      digest,
      digest.toUpperCase(),
      `"${digest}"`,
      "a",
      "a\u0000",
      "a\u0000b",
      "\ud800",
      "\ufffd",
      "",
    ];
    const answers = await Promise.all(ids.map((id) => store.claim(claimOf("k", { id }))));
    expect(answers.map(({ status }) => status)).toEqual(ids.map(() => "new"));
    for (const id of ids) expect(await store.read(id)).toMatchObject({ id, state: "pending" });
    const page = await store.list?.({ namespace: "shop", limit: 20 });
    expect(page?.records.map(({ id }) => id).sort()).toEqual([...ids].sort());
  });
});

describe("waiters", () => {
  test("are woken across two connections to one file, and SQLite is not queried when no caller waits", async () => {
    const { file, database } = inWal();
    const ours = sqliteStore({ database });
    const theirs = sqliteStore({ database: connect(file) });
    await theirs.claim(claimOf("a"));
    await ours.read("nothing");
    const woken = new Promise<void>((resolve) => {
      void ours.watch?.({ id: claimOf("a").id, wake: resolve });
    });
    await theirs.claim(claimOf("another"));
    await theirs.complete(completionOf("a"));
    await woken;
    await ours.close();
  });
});

describe("options", () => {
  const refused: readonly (readonly [title: string, options: unknown, message: string])[] = [
    ["neither a file nor a database", {}, "file is undefined"],
    ["a missing object", undefined, "must be an object"],
    ["an empty file", { file: "" }, "file is"],
    ["a file in memory", { file: ":memory:" }, "memoryStore()"],
    ["an unknown level", { file: "x.db", synchronous: "off" }, '"full" or "normal"'],
    ["an exclusive that is not a boolean", { file: "x.db", exclusive: "yes" }, "true or false"],
    ["a clock for a file", { file: "x.db", clock: manualClock() }, "no option called"],
    ["an object that is not a database", { database: {} }, "exec() and prepare()"],
    ["a value that is not a clock", { database: new DatabaseSync(":memory:"), clock: 1 }, "now()"],
    [
      "both a file and a database",
      { file: "x.db", database: new DatabaseSync(":memory:") },
      "no option called",
    ],
  ];
  test.each(refused)("refuses %s", (_, options, message) => {
    expect(() => sqliteStore(options as SqliteStoreOptions)).toThrow(
      expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(message) }),
    );
  });
});

describe("a record that another connection renews while this one stands still between its looks", () => {
  const LOOKS: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
    "one read": async (store) => (await store.read(claimOf("a").id))?.state,
    "a read beside another": async (store) =>
      (await Promise.all([store.read(claimOf("b").id), store.read(claimOf("a").id)]))[1]?.state,
    list: async (store) =>
      (await store.list?.({ namespace: "shop", limit: 5 }))?.records.find(({ id }) => id === claimOf("a").id)
        ?.state,
    "a claim that holds": async (store) =>
      (await store.claim(claimOf("a", { token: "another", hold: true }))).status,
  };

  for (const [name, look] of Object.entries(LOOKS)) {
    test(`is not seen as lapsed by ${name}`, async () => {
      const file = fileNamed();
      const beside = connect(file);
      beside.exec("PRAGMA journal_mode = WAL");
      let time = 1_000_000;
      const owner = sqliteStore({ database: beside, clock: { now: () => time } });
      await owner.claim(claimOf("a"));
      await owner.claim(claimOf("b"));
      const standing = {
        now() {
          for (let renewals = 0; renewals < 4; renewals++) {
            time += LEASE_MS / 2;
            beside.exec(`UPDATE nevertwice_records SET lease_ends_at = ${time + LEASE_MS}`);
          }
          return time;
        },
      };
      expect(await look(sqliteStore({ database: connect(file), clock: standing }))).toBe("pending");
    });
  }
});
