/** Tests reservations on a SQLite connection of the caller's, on a clock that the tests move. */
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { systemTimer } from "../../src/core/clock.ts";
import {
  type ActionName,
  type ActionRequest,
  digestParameters,
} from "../../src/reservations/action-request.ts";
import { createActions } from "../../src/reservations/actions.ts";
import type { Answer } from "../../src/reservations/answer.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { CHECKPOINTS, COMMITMENTS, EVENTS, KEYS, RESOURCES } from "../../src/reservations/sqlite/schema.ts";
import { type SqliteReservationsOptions, sqliteReservations } from "../../src/reservations/sqlite.ts";
import * as sql from "../../src/reservations/sqlite-sql.ts";
import type { ReservationStore, Rules } from "../../src/reservations/store.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { reservationStoreSuite } from "../reservations/store-suite.ts";
import { claimOf, commitsIn, connections, scratchFiles } from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connections();

for (const readBigInts of [false, true])
  reservationStoreSuite(`sqlite, { database }${readBigInts ? " that reads bigints" : ""}`, async () => {
    const clock = manualClock();
    const database = new DatabaseSync(":memory:", { readBigInts });
    return {
      store: sqliteReservations({ database, clock }),
      advance: clock.advance,
      close: async () => database.close(),
    };
  });

const HOUR_MS = 3_600_000;
const RULES: Rules = {
  namespace: "air",
  windowMs: HOUR_MS,
  historyMs: 0,
  maxDurationMs: HOUR_MS,
  available: undefined,
};

function inWal(): { file: string; database: DatabaseSyncInstance } {
  const file = fileNamed();
  const database = connect(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;");
  return { file, database };
}

function opened(database: SqliteReservationsOptions & { database: unknown }) {
  const store = sqliteReservations(database);
  const seats = createReservations({ store, namespace: "air", windowMs: HOUR_MS, purgeEveryMs: 0 });
  return { store, seats };
}

const hold = (key: string, more: object = {}) => ({
  resource: `seat ${key}`,
  requester: "ann",
  durationMs: 60_000,
  key,
  ...more,
});

/** An action request as the store receives it. */
function asked(action: ActionName, key: string, parameters: Record<string, unknown>): ActionRequest {
  const digest = digestParameters(action, parameters);
  return {
    action,
    parameters,
    digest,
    keyId: key,
    namespace: "air",
    scope: "",
    key,
    newId: `id of ${key}`,
    salt: "salt",
  };
}

const placing = (key: string, more: object = {}) => {
  const { key: _, ...parameters } = { units: 1, ...hold(key, more) };
  return asked("placeHold", key, parameters);
};

function rowsIn(database: DatabaseSyncInstance): Record<string, number> {
  return Object.fromEntries(
    [KEYS, COMMITMENTS, RESOURCES, EVENTS, CHECKPOINTS].map(({ table }) => [
      table,
      database.prepare(`SELECT count(*) AS rows FROM ${table}`).get().rows,
    ]),
  );
}

describe("a group of actions", () => {
  test("of 64 is one commit, and its retry flushes nothing", async () => {
    const { file, database } = inWal();
    const { store, seats } = opened({ database });
    await store.elapsed("air", 1);
    const before = await commitsIn(file);
    const ask = () => Promise.all(Array.from({ length: 64 }, (_, i) => seats.placeHold(hold(`k${i}`))));
    const answers = await ask();
    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect((await commitsIn(file)) - before).toBe(1);
    expect(await ask()).toEqual(answers);
    expect((await commitsIn(file)) - before).toBe(1);
    expect(rowsIn(database)).toEqual({
      nevertwice_reservation_keys: 64,
      nevertwice_commitments: 64,
      nevertwice_resources: 64,
      nevertwice_reservation_events: 64,
      nevertwice_reservation_checkpoints: 1,
    });
  });

  test("that ends some elapsed holds and needs the units of others gets the same answers as in memory", async () => {
    async function play(storeOn: (clock: ReturnType<typeof manualClock>) => ReservationStore) {
      const clock = manualClock();
      const store = storeOn(clock);
      await store.transact([asked("declare", "d", { resource: "pool", capacity: 10 })], RULES);
      const holds = Array.from({ length: 10 }, (_, i) =>
        placing(`h${i}`, { resource: "pool", durationMs: 1_000 + i }),
      );
      await store.transact(holds, RULES);
      clock.advance(5_000);
      const answers = await store.transact(
        [
          ...[0, 1, 2].map((i) => asked("release", `r${i}`, { id: `id of h${i}` })),
          placing("four", { resource: "pool", units: 4 }),
          placing("six", { resource: "pool", units: 6 }),
          placing("one too many", { resource: "pool" }),
        ],
        RULES,
      );
      const { rows } = await store.commitments({ namespace: "air", limit: 100 });
      return { answers, rows: rows.map(({ id, state, occupied }) => ({ id, state, occupied })) };
    }
    const here = await play((clock) => sqliteReservations({ database: new DatabaseSync(":memory:"), clock }));
    expect(here).toEqual(await play((clock) => memoryReservations({ clock })));
    expect(here.answers.map((answer: Answer) => answer.ok)).toEqual([true, true, true, true, true, false]);
  });

  test("reads the clock once, after it took the write lock", async () => {
    const { file, database } = inWal();
    const other = connect(file);
    other.exec("PRAGMA busy_timeout = 0");
    let reads = 0;
    const clock = {
      now() {
        reads++;
        expect(() => other.exec("BEGIN IMMEDIATE")).toThrow("locked");
        return 1_700_000_000_000;
      },
    };
    const store = sqliteReservations({ database, clock });
    const group = ["a", "b", "c"].map((key) => placing(key));
    expect((await store.transact(group, RULES)).every(({ ok }) => ok)).toBe(true);
    expect(reads).toBe(1);
  });

  test("reads elapsed holds only if there is no room, and no more than it can need", async () => {
    const database = new DatabaseSync(":memory:");
    const clock = manualClock();
    const store = sqliteReservations({ database, clock });
    await store.transact([asked("declare", "d", { resource: "pool", capacity: 1_001 })], RULES);
    const many = Array.from({ length: 1_000 }, (_, i) => placing(`h${i}`, { resource: "pool" }));
    await store.transact(many, RULES);
    clock.advance(HOUR_MS);
    const limits: unknown[] = [];
    const spied = wrapped(database, sql.ELAPSED_OF_RESOURCE, (statement) => ({
      all(...values) {
        limits.push(values.at(-1));
        return statement.all(...values);
      },
    }));
    const seen = sqliteReservations({ database: spied, clock });
    await seen.transact([placing("last", { resource: "pool" })], RULES);
    expect(limits).toEqual([]);
    await seen.transact(
      [placing("a", { resource: "pool", units: 5 }), placing("b", { resource: "pool" })],
      RULES,
    );
    expect(limits).toEqual([5 + 1 + 2]);
  });
});

type Statement = ReturnType<DatabaseSyncInstance["prepare"]>;

/** The connection with one statement replaced. */
function wrapped(
  database: DatabaseSyncInstance,
  text: string,
  change: (statement: Statement) => Partial<Statement>,
): DatabaseSyncInstance {
  const prepare = (script: string) => {
    const statement = database.prepare(script);
    if (script !== text) return statement;
    const own = { all: statement.all.bind(statement), run: statement.run.bind(statement) };
    return { ...own, setReturnArrays: statement.setReturnArrays.bind(statement), ...change(statement) };
  };
  return { exec: (script: string) => database.exec(script), prepare } as unknown as DatabaseSyncInstance;
}

describe("every query", () => {
  const AFTER = "id > ?";
  const queries: readonly (readonly [name: string, index: string, text: string, values: number])[] = [
    ["a key", "reservation_keys_by_id", sql.find(KEYS), 2],
    ["a commitment", "commitments_by_id", sql.find(COMMITMENTS), 2],
    ["a resource", "PRIMARY KEY", sql.find(RESOURCES), 2],
    ["elapsed holds of a resource", "commitments_held_by_resource", sql.ELAPSED_OF_RESOURCE, 4],
    ["elapsed holds", "commitments_held_by_expires_at", sql.ELAPSED, 3],
    ["commitments", "commitments_by_id", sql.page(COMMITMENTS, AFTER), 3],
    ["commitments of a resource", "commitments_by_resource", sql.page(COMMITMENTS, "resource = ?", AFTER), 4],
    [
      "commitments of a requester",
      "commitments_by_requester",
      sql.page(COMMITMENTS, "requester = ?", AFTER),
      4,
    ],
    ["holds", "commitments_by_state", sql.page(COMMITMENTS, sql.IS_HELD, AFTER), 3],
    ["commitments in a state", "commitments_by_state", sql.page(COMMITMENTS, "state = ?", AFTER), 4],
    ["keys", "reservation_keys_by_id", sql.page(KEYS, AFTER), 3],
    ["keys of a commitment", "reservation_keys_by_commitment", sql.page(KEYS, "commitment = ?", AFTER), 4],
    ["events", "reservation_events_by_subject", sql.page(EVENTS, "(subject, number) > (?, ?)"), 4],
    [
      "events of a subject",
      "reservation_events_by_subject",
      sql.page(EVENTS, "subject = ?", "number > ?"),
      4,
    ],
    ["checkpoints", "reservation_checkpoints_by_id", sql.page(CHECKPOINTS, AFTER), 3],
    ["resources", "PRIMARY KEY", sql.page(RESOURCES, "name > ?"), 3],
    ["whether there are keys to purge", "reservation_keys_by_kept_until", sql.HAS_PURGEABLE, 1],
    ["a purge", "reservation_keys_by_kept_until", sql.PURGE, 2],
  ];
  test.each(queries)("%s: uses an index and does not sort", async (_, index, text, values) => {
    const database = new DatabaseSync(":memory:");
    await sqliteReservations({ database }).elapsed("air", 1);
    const plan = database.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...new Array(values).fill(1));
    for (const { detail } of plan) expect(detail).toMatch(/^SEARCH|^LIST SUBQUERY/);
    const details = plan.map(({ detail }) => detail).join(", ");
    expect(details).toMatch(new RegExp(`(INDEX nevertwice_|USING )${index} \\(`));
  });
});

describe("a transaction that fails", () => {
  test("inside a transaction of the caller is rejected: its ROLLBACK could undo it", async () => {
    const { database } = inWal();
    const { store, seats } = opened({ database });
    await store.elapsed("air", 1);
    database.exec("BEGIN; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    await expect(store.transact([placing("a")], RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "store-unsafe", message: expect.stringContaining("open transaction") },
    });
    database.exec("COMMIT");
    expect(database.prepare("SELECT x FROM theirs").get()).toEqual({ x: 1 });
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
  });

  test("because the disk is full wrote nothing, and the same keys work once there is room", async () => {
    const { database } = inWal();
    const { store, seats } = opened({ database });
    await seats.placeHold(hold("first"));
    const before = rowsIn(database);
    const { page_count: pages } = database.prepare("PRAGMA page_count").get();
    database.exec(`PRAGMA max_page_count = ${pages}`);
    const group = Array.from({ length: 64 }, (_, i) => placing(`k${i}`, { requester: "r".repeat(1_000) }));
    await expect(store.transact(group, RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "store-full" },
    });
    expect(await seats.placeHold(hold("big", { requester: "r".repeat(1_024) }))).toMatchObject({
      ok: false,
      reason: "storage-failure",
      detail: expect.stringContaining("full"),
    });
    expect(rowsIn(database)).toEqual(before);
    database.exec("PRAGMA max_page_count = 100000");
    expect((await store.transact(group, RULES)).every(({ ok }) => ok)).toBe(true);
  });

  test("at a busy COMMIT wrote nothing", async () => {
    const file = fileNamed();
    const database = connect(file);
    database.exec("PRAGMA busy_timeout = 0");
    const { store, seats } = opened({ database });
    await store.elapsed("air", 1);
    const reader = connect(file);
    reader.exec("BEGIN");
    reader.prepare(`SELECT * FROM ${KEYS.table}`).all();
    await expect(store.transact([placing("a")], RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "unavailable" },
    });
    reader.exec("COMMIT");
    expect(rowsIn(database)).toMatchObject({ nevertwice_reservation_keys: 0, nevertwice_commitments: 0 });
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
  });

  test("at a COMMIT whose flush failed is reported as unknown with the decision, and the key returns the same answer", async () => {
    const { database } = inWal();
    let failures = 1;
    const failing = wrapped(database, "COMMIT", (statement) => ({
      run(...values) {
        const done = statement.run(...values);
        if (failures-- > 0) throw Object.assign(new Error("disk I/O error"), { errcode: 1034 });
        return done;
      },
    }));
    const { store } = opened({ database: failing });
    const answer = { ok: true, id: "id of a" };
    await expect(store.transact([placing("a")], RULES)).rejects.toMatchObject({
      name: "MayBeWritten",
      answers: [answer],
      cause: { code: "store-unsafe", cause: { message: "disk I/O error", errcode: 1034 } },
    });
    expect(await store.transact([{ ...placing("a"), newId: "another" }], RULES)).toEqual([answer]);
  });

  test("while another connection holds the lock wrote nothing, and works once the lock is released", async () => {
    const { file, database } = inWal();
    database.exec("PRAGMA busy_timeout = 0");
    const { store, seats } = opened({ database });
    const kept = await seats.placeHold(hold("first"));
    const other = connect(file);
    other.exec("BEGIN IMMEDIATE");
    await expect(store.transact([placing("a")], RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "unavailable" },
    });
    expect(await seats.get(kept.ok ? kept.id : "")).toMatchObject({ state: "held" });
    other.exec("ROLLBACK");
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
  });
});

describe("a custom availability", () => {
  test("is called inside the transaction, and writes nothing if it throws", async () => {
    const { database } = inWal();
    const store = sqliteReservations({ database });
    const available = ({ requester }: { requester: string }) => {
      expect(() => database.exec("BEGIN")).toThrow("within a transaction");
      if (requester === "carl") throw new Error("who is carl?");
      return requester !== "bob";
    };
    const actions = createActions({
      store,
      rules: { ...RULES, available },
      actionMs: 5_000,
      timer: systemTimer,
    });
    const answers = await Promise.all(
      ["ann", "bob", "carl"].map((requester) => actions.placeHold(hold(requester, { requester }))),
    );
    expect(answers).toMatchObject([
      { ok: true },
      { ok: false, reason: "resource-unavailable" },
      { ok: false, reason: "storage-failure", detail: "who is carl?" },
    ]);
    expect(rowsIn(database)).toMatchObject({ nevertwice_reservation_keys: 2, nevertwice_commitments: 1 });
  });
});

describe("the caller's database", () => {
  test("may also contain the store of a guard, stays open, and keeps its user_version", async () => {
    const { database } = inWal();
    database.exec("PRAGMA user_version = 37");
    const { store, seats } = opened({ database });
    const guarded = sqliteStore({ database });
    expect(await guarded.claim(claimOf("a"))).toMatchObject({ status: "new" });
    expect(await seats.placeHold(hold("a"))).toMatchObject({ ok: true });
    expect(await guarded.claim(claimOf("b"))).toMatchObject({ status: "new" });
    await store.close();
    await guarded.close();
    expect(database.prepare("PRAGMA user_version").get()).toEqual({ user_version: 37 });
    await expect(store.transact([placing("late")], RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "unavailable" },
    });
    await expect(store.get("air", "x")).rejects.toMatchObject({ code: "unavailable" });
  });

  test("of a newer version is rejected and not changed", async () => {
    const { database } = inWal();
    await opened({ database }).seats.placeHold(hold("a"));
    database.exec("UPDATE nevertwice_reservations SET schema_version = 99");
    await expect(opened({ database }).store.transact([placing("b")], RULES)).rejects.toMatchObject({
      name: "NotWritten",
      cause: { code: "store-unsafe", message: expect.stringContaining("newer version") },
    });
    expect(rowsIn(database)).toMatchObject({ nevertwice_commitments: 1 });
  });

  test("reports what it survives", async () => {
    const store = sqliteReservations({ database: new DatabaseSync(":memory:") });
    expect(await store.settings?.()).toMatchObject({ survives: { "our-crash": { survives: "no" } } });
  });

  test("keeps two namespaces apart, also with text that no driver stores as text", async () => {
    const { store } = opened({ database: new DatabaseSync(":memory:") });
    const odd = { resource: "a\u0000b", requester: "\u0000" };
    await store.transact([placing("k\u0000", odd), placing("k", { resource: "a" })], RULES);
    await store.transact([placing("k\u0000", odd)], { ...RULES, namespace: "air\u0000" });
    for (const namespace of ["air", "air\u0000"]) {
      const { rows } = await store.commitments({ namespace, limit: 9, requester: "\u0000" });
      expect(rows).toMatchObject([{ namespace, id: "id of k\u0000", ...odd }]);
      expect(
        (await store.events({ namespace, subject: "commitment:id of k\u0000", limit: 9 })).rows,
      ).toHaveLength(1);
    }
    expect((await store.commitments({ namespace: "air", resource: "\ud800", limit: 9 })).rows).toEqual([]);
  });
});

test.each([
  [undefined, "options"],
  [{}, "file"],
  [{ file: "" }, "file"],
  [{ file: ":memory:" }, "memoryReservations()"],
  [{ file: "x.db", clock: { now: () => 0 } }, "clock"],
  [{ file: "x.db", synchronous: "off" }, "synchronous"],
  [{ file: "x.db", exclusive: "yes" }, "exclusive"],
  [{ database: {} }, "database"],
  [{ database: { exec() {}, prepare() {} }, clock: 1 }, "clock"],
  [{ database: { exec() {}, prepare() {} }, exclusive: true }, "exclusive"],
])("%j is refused by name", (options, named) => {
  const open = () => sqliteReservations(options as unknown as SqliteReservationsOptions);
  expect(open).toThrow(
    expect.objectContaining({ code: "options-invalid", message: expect.stringContaining(named) }),
  );
});

test("a hold that another connection extends while this one stands still is not judged by a later clock", async () => {
  const { file, database } = inWal();
  let time = 1_000_000;
  const { seats } = opened({ database, clock: { now: () => time } });
  const held = await seats.placeHold(hold("a"));
  if (!held.ok) throw new Error("it was not placed");
  const standing = {
    now() {
      time += 2 * HOUR_MS;
      database.exec(`UPDATE nevertwice_commitments SET expires_at = ${time + HOUR_MS}`);
      return time;
    },
  };
  const { commitment, now } = await sqliteReservations({ database: connect(file), clock: standing }).get(
    "air",
    held.id,
  );
  expect(commitment?.expiresAt).toBe(now + HOUR_MS);
});

test("hashes are stored as their bytes", async () => {
  const database = new DatabaseSync(":memory:");
  const seats = createReservations({ store: sqliteReservations({ database }), windowMs: HOUR_MS });
  await seats.placeHold({ key: "k", resource: "1A", requester: "ann", durationMs: HOUR_MS });
  const lengthsOf = (table: string, ...columns: string[]) =>
    Object.values(
      database
        .prepare(
          `SELECT ${columns.map((name) => `iif(typeof(${name}) = 'blob', length(${name}), -1) AS ${name}`)} FROM ${table}`,
        )
        .get() as object,
    );
  expect(lengthsOf("nevertwice_reservation_keys", "id", "digest")).toEqual([32, 33]);
  expect(lengthsOf("nevertwice_commitments", "last_hash")).toEqual([32]);
  expect(lengthsOf("nevertwice_reservation_events", "key_id", "hash")).toEqual([32, 32]);
  expect(lengthsOf("nevertwice_reservation_checkpoints", "digest")).toEqual([32]);
  expect((await seats.audit()).ok).toBe(true);
  await seats.close();
});
