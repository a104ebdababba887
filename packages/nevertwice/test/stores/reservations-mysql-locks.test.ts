/** Tests reservations on MariaDB when many processes act at once: which one waits for which, and that none waits for ever. */
import { randomUUID } from "node:crypto";
import type { RowDataPacket } from "mysql2/promise";
import { expect, test } from "vitest";
import type { ActionRequest } from "../../src/reservations/action-request.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { changeCommitted } from "../../src/reservations/mysql/transaction.ts";
import { mysqlReservations } from "../../src/reservations/mysql.ts";
import { purgeSql } from "../../src/reservations/mysql-sql.ts";
import { NotWritten } from "../../src/reservations/store.ts";
import { startProxy } from "../services/proxy.ts";
import { startFor } from "../services/services.ts";
import { poolOn } from "./mysql/pools.ts";
import { countRows, locking, newReservations, waiting } from "./mysql/reservations.ts";
import { asked, HOUR_MS, NAMESPACE, NOTHING, ONE_HOLD, RULES, toHold } from "./reservation-requests.ts";

const KEYS = "INSERT INTO nevertwice_reservation_keys";
const RESOURCES = "INSERT INTO nevertwice_resources";
const toLock = (name: string) => `SELECT * FROM nevertwice_resources WHERE name = '${name}' FOR UPDATE`;

test("a duplicate on another connection waits for the first, and gets its answer", async (context) => {
  const { url, pool, store } = await newReservations(context);
  await store.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const other = mysqlReservations({ client: poolOn(context, url) });
  const blocker = await locking(pool, toLock("room"));
  const first = toHold("room", {}, "k");
  const answers = [store.transact([first], RULES)];
  await waiting(pool, RESOURCES);
  answers.push(other.transact([toHold("room", {}, "k")], RULES));
  answers.push(other.transact([toHold("room", { units: 2 }, "k")], RULES));
  await waiting(pool, KEYS, 2);
  await blocker.end();
  expect(await Promise.all(answers)).toEqual([
    [{ ok: true, id: first.newId }],
    [{ ok: true, id: first.newId }],
    [expect.objectContaining({ reason: "token-collision" })],
  ]);
  expect(await countRows(pool)).toEqual({ ...ONE_HOLD, keys: 2, events: 2, checkpoints: 2 });
});

test("duplicates of a killed transaction continue and get one answer", async (context) => {
  const { url, pool, store } = await newReservations(context);
  await store.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const others = mysqlReservations({ client: poolOn(context, url) });
  const blocker = await locking(pool, toLock("room"));
  const first = store.transact([toHold("room", {}, "k")], RULES).catch((error: unknown) => error);
  const [id] = await waiting(pool, RESOURCES);
  const answers = Array.from({ length: 8 }, () => others.transact([toHold("room", {}, "k")], RULES));
  await waiting(pool, KEYS, 8);
  await pool.query(`KILL CONNECTION ${id}`);
  expect(await first).toBeInstanceOf(NotWritten);
  await blocker.end();
  expect(new Set((await Promise.all(answers)).map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect(await countRows(pool)).toEqual({ ...ONE_HOLD, keys: 2, events: 2, checkpoints: 2 });
});

test("two requests for a resource without a row wait for each other, and one gets it", async (context) => {
  const { url, store } = await newReservations(context);
  const other = mysqlReservations({ client: poolOn(context, url) });
  for (let i = 0; i < 20; i++) {
    const answers = await Promise.all(
      [store, other, store, other].map((each) => each.transact([toHold(`room-${i}`)], RULES)),
    );
    expect(answers.flat().filter(({ ok }) => ok)).toHaveLength(1);
  }
});

test("transactions on different rows do not wait for each other, even in a small table", async (context) => {
  const { pool, store } = await newReservations(context);
  const holds = ["a", "b", "c"].map((name) => toHold(name, {}, name));
  const past = toHold("p", { durationMs: 1 });
  await store.transact([...holds, past], RULES);
  const blocker = await locking(
    pool,
    toLock("b"),
    "SELECT * FROM nevertwice_reservation_keys WHERE id = 'key-b' FOR UPDATE",
    `SELECT * FROM nevertwice_commitments WHERE namespace = 'n' AND id = '${holds[1]?.newId}' FOR UPDATE`,
  );
  const ends = [asked("confirm", { id: holds[0]?.newId }), asked("release", { id: holds[2]?.newId })];
  const answers = await store.transact([...ends, toHold("p"), toHold("0"), toHold("z")], RULES);
  expect(answers.map(({ ok }) => ok)).toEqual([true, true, true, true, true]);
  expect(await store.transact([toHold("a", {}, "a")], RULES)).toEqual([{ ok: true, id: holds[0]?.newId }]);
  await blocker.end();
});

test("the clock is read after the locks: a confirm that waited past expiresAt is too late", async (context) => {
  const { pool, store } = await newReservations(context);
  const hold = toHold("room", { durationMs: 1_500 });
  await store.transact([hold], RULES);
  const { commitment } = await store.get("n", hold.newId);
  const blocker = await locking(pool, toLock("room"));
  const confirmed = store.transact([asked("confirm", { id: hold.newId })], RULES);
  await waiting(pool, RESOURCES);
  while ((await store.now()) < (commitment?.expiresAt ?? 0))
    await new Promise((resolve) => setTimeout(resolve, 50));
  await blocker.end();
  expect(await confirmed).toMatchObject([{ reason: "window-elapsed" }]);
});

test("groups that share keys, resources and commitments all finish, and nothing is oversold", async (context) => {
  const { url, pool, store } = await newReservations(context);
  const stores = [store, ...[1, 2, 3].map(() => mysqlReservations({ client: poolOn(context, url) }))];
  const names = ["a", "b", "c", "d", "e", "f"];
  await store.transact(
    names.slice(0, 3).map((resource) => asked("declare", { resource, capacity: 4 })),
    RULES,
  );
  const ids: string[] = [];
  const any = <T>(list: readonly T[]) => list[Math.floor(Math.random() * list.length)] as T;
  const one = (): ActionRequest => {
    const roll = Math.random();
    if (roll < 0.5 || ids.length === 0)
      return toHold(any(names), { durationMs: roll < 0.1 ? 1 : HOUR_MS }, `k${Math.floor(roll * 400)}`);
    const action = any(["confirm", "release", "expire", "giveBack"] as const);
    return asked(action, { id: any(ids) });
  };
  const client = async (i: number) => {
    for (let round = 0; round < 12; round++) {
      const group = Array.from({ length: 1 + Math.floor(Math.random() * 8) }, one);
      for (const answer of await (stores[i % 4] ?? store).transact(group, RULES))
        if (answer.ok && "id" in answer) ids.push(answer.id);
    }
  };
  await Promise.all(Array.from({ length: 12 }, (_, i) => client(i)));
  const commitments = (await store.commitments({ namespace: "n", limit: 10_000 })).rows;
  const resources = (await store.resources({ namespace: "n", limit: 100 })).rows;
  expect(resources.length).toBeGreaterThan(3);
  for (const { name, taken, capacity } of resources) {
    const occupied = commitments
      .filter(({ resource }) => resource === name)
      .reduce((sum, row) => sum + row.occupied, 0);
    expect([name, taken]).toEqual([name, occupied]);
    expect(taken).toBeLessThanOrEqual(capacity);
  }
  const { rows: events } = await store.events({ namespace: "n", limit: 10_000 });
  const ends = events.filter(({ kind }) => ["confirmed", "released", "expired"].includes(kind));
  expect(new Set(ends.map(({ subject }) => subject)).size).toBe(ends.length);
  const [[placeholders]] = await pool.query<RowDataPacket[]>(
    "SELECT COUNT(*) AS count FROM nevertwice_resources WHERE state IS NULL",
  );
  expect(Number(placeholders?.count)).toBe(0);
});

test("an action on a hold that was committed while it waited locks the resource of the hold too", async (context) => {
  const { pool, store } = await newReservations(context);
  const options = { namespace: NAMESPACE, windowMs: HOUR_MS, purgeEveryMs: 0, actionMs: 60_000 };
  const desk = createReservations({ store, ...options });
  for (const action of ["confirm", "release"] as const) {
    const connection = await pool.getConnection();
    await connection.beginTransaction();
    const room = { resource: action, requester: "ann", durationMs: HOUR_MS, key: action };
    const placed = await desk.placeHold(room, { tx: connection });
    const answer = desk[action]({ id: (placed as { id: string }).id, key: `${action} it` });
    await waiting(pool, "SELECT * FROM nevertwice_commitments");
    await connection.commit();
    connection.release();
    expect(await answer).toEqual({ ok: true });
  }
  expect((await store.resources({ namespace: NAMESPACE, limit: 9 })).rows).toMatchObject([
    { name: "confirm", taken: 1, events: 2 },
    { name: "release", taken: 0, events: 2 },
  ]);
  expect(await desk.audit()).toMatchObject({ ok: true });
});

test("a group that loses a deadlock is retried", async (context) => {
  const { pool, store } = await newReservations(context);
  await store.transact([toHold("a"), toHold("b")], RULES);
  const weight = Array.from({ length: 200 }, () => `('${randomUUID()}', 'w')`).join(", ");
  const blocker = await locking(
    pool,
    `INSERT INTO nevertwice_reservation_keys (id, namespace) VALUES ${weight}`,
    toLock("b"),
  );
  const answers = store.transact([toHold("b"), toHold("a")], RULES);
  await waiting(pool, RESOURCES);
  await blocker.query(toLock("a"));
  await waiting(pool, RESOURCES);
  await blocker.end();
  expect(await answers).toMatchObject([
    { reason: "resource-unavailable" },
    { reason: "resource-unavailable" },
  ]);
});

/** A refusal is an event of its resource, and the row of the resource ends the chain of events. */
const TWO_REFUSALS = { ...NOTHING, keys: 2, resources: 2, events: 2, checkpoints: 1 };

test("a rejected hold leaves the row that ends its chain, and an answer without an event leaves no placeholder", async (context) => {
  const { pool, store } = await newReservations(context);
  const group = [asked("suspend", { resource: "room" }), toHold("hall", { units: 2 })];
  expect(await store.transact(group, RULES)).toMatchObject([
    { reason: "not-known" },
    { reason: "resource-unavailable" },
  ]);
  expect(await countRows(pool)).toEqual(TWO_REFUSALS);
  const { rows } = await store.resources({ namespace: NAMESPACE, limit: 9 });
  expect(rows).toMatchObject([
    { name: "hall", isDeclared: false, taken: 0, events: 1 },
    { name: "room", isDeclared: false, taken: 0, events: 1 },
  ]);
  const collides = toHold("attic", {}, group[0]?.key);
  expect(await store.transact([...group, collides], RULES)).toMatchObject([
    { reason: "not-known" },
    { reason: "resource-unavailable" },
    { reason: "token-collision" },
  ]);
  expect(await countRows(pool)).toEqual(TWO_REFUSALS);
});

test("a group takes as many round trips as one action", async (context) => {
  const { url } = await newReservations(context);
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlReservations({ client: poolOn(context, proxy.url, { connectionLimit: 1 }) });
  await store.now();
  const countTrips = async (group: readonly ActionRequest[]) => {
    const before = proxy.countRequests("mysql");
    await store.transact(group, RULES);
    return before.count;
  };
  const holds = Array.from({ length: 64 }, (_, i) => toHold(`room-${i}`));
  expect(await countTrips([toHold("room")])).toBe(13);
  expect(await countTrips(holds)).toBe(13);
  // Two of them are for a commit that flushes what the group returns, which this server shows early.
  expect(await countTrips(holds)).toBe(10);
  // One is for the rows of the resources, where the chains of these events end.
  expect(await countTrips(holds.map(({ newId: id }) => asked("confirm", { id })))).toBe(15);
});

test("a key that was recorded again after the purge selected it is not deleted", async (context) => {
  const { pool, store } = await newReservations(context);
  const short = { ...RULES, windowMs: 1 };
  const hold = toHold("room", {}, "k");
  await store.transact([hold], short);
  await store.transact([{ ...hold, newId: randomUUID() }], RULES);
  expect(await changeCommitted(pool, purgeSql([hold.keyId]))).toBe(0);
  expect(await store.purge(10)).toEqual({ removed: 0, more: false });
});

test("a process that has met a transaction of the application looks first, and closes no more connections", async (context) => {
  const { url, pool, store } = await newReservations(context);
  const desk = createReservations({ store, namespace: NAMESPACE, windowMs: HOUR_MS, purgeEveryMs: 0 });
  const counted = poolOn(context, url);
  let opened = 0;
  counted.on("connection", () => opened++);
  const other = mysqlReservations({ client: counted });
  const tx = await pool.getConnection();
  await tx.beginTransaction();
  const inside = { resource: "room", requester: "ann", durationMs: HOUR_MS, key: "inside" };
  expect(await desk.placeHold(inside, { tx })).toMatchObject({ ok: true });

  const act = () => other.transactSkippingLocked?.([toHold("room"), toHold(randomUUID())], RULES);
  const setAside = [undefined, expect.objectContaining({ ok: true })];
  // It waits for the row, finds out why, and closes the connection that waits.
  expect(await act()).toEqual(setAside);
  const openedBefore = opened;
  for (let i = 0; i < 5; i++) expect(await act()).toEqual(setAside);
  expect(opened).toBe(openedBefore);
  await tx.rollback();
  tx.release();
  expect(await act()).toEqual([setAside[1], setAside[1]]);
});
