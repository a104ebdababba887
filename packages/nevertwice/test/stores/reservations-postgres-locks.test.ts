/** Tests what a transaction of reservations locks on Postgres, in which order, and what it costs: nobody waits in a circle. */
import { randomInt, randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { createReservations } from "../../src/reservations/index.ts";
import type { PostgresReservations } from "../../src/reservations/postgres.ts";
import { readAll } from "../reservations/records.ts";
import { startProxy } from "../services/proxy.ts";
import { query, setFor } from "./postgres/database.ts";
import { holding, LOCK_ROOM, migrated, rowCounts, storeOn, untilWaiting } from "./postgres/reservations.ts";
import { asked, NAMESPACE, RULES, toHold } from "./reservation-requests.ts";

test("a group of 64 costs five round trips, as one action does, and its replay four", async (context) => {
  const proxy = await startProxy(await migrated(context));
  onTestFinished(() => proxy.stop());
  const store = storeOn(proxy.url);
  await store.now();
  const trips = async (group: Parameters<typeof store.transact>[0]) => {
    const requests = proxy.countRequests("postgres");
    await store.transact(group, RULES);
    return requests.count;
  };
  const group = Array.from({ length: 64 }, (_, i) => toHold(`room-${i}`));
  expect(await trips([toHold("room")])).toBe(5);
  expect(await trips(group)).toBe(5);
  expect(await trips(group)).toBe(4);
  expect(await trips(group.map(({ newId }) => asked("confirm", { id: newId })))).toBe(5);
});

test("a duplicate on another connection waits for the first and gets its answer", async (context) => {
  const url = await migrated(context);
  const [one, other] = [storeOn(url), storeOn(url)];
  await one.transact([asked("declare", { resource: "room", capacity: 2 })], RULES);
  const letGo = await holding(url, LOCK_ROOM);
  const first = one.transact([toHold("room", {}, "k")], RULES);
  await untilWaiting(url, 1);
  let isAnswered = false;
  const second = other.transact([toHold("room", {}, "k")], RULES).finally(() => {
    isAnswered = true;
  });
  await untilWaiting(url, 2);
  expect(isAnswered).toBe(false);
  await letGo();
  const [answer] = await first;
  expect(answer).toMatchObject({ ok: true });
  expect(await second).toEqual([answer]);
  expect(await rowCounts(url)).toMatchObject({ keys: 2, commitments: 1 });
});

test("a key past its window is locked too: two concurrent uses are one request", async (context) => {
  const url = await migrated(context);
  const [one, other] = [storeOn(url), storeOn(url)];
  await one.transact([asked("declare", { resource: "room", capacity: 2 })], RULES);
  await one.transact([toHold("room", {}, "k")], { ...RULES, windowMs: 1 });
  const over = (await one.now()) + 2;
  while ((await one.now()) < over) await new Promise((wake) => setTimeout(wake, 1));
  const letGo = await holding(url, LOCK_ROOM);
  const first = one.transact([toHold("room", {}, "k")], RULES);
  await untilWaiting(url, 1);
  const second = other.transact([toHold("hall", {}, "k")], RULES);
  await untilWaiting(url, 2);
  await letGo();
  expect(await first).toMatchObject([{ ok: true }]);
  expect(await second).toMatchObject([{ ok: false, reason: "token-collision" }]);
});

test("a key is locked before a resource: only one of several duplicates waits for the resource", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  await store.transact([asked("declare", { resource: "room", capacity: 9 })], RULES);
  const letGo = await holding(url, LOCK_ROOM);
  const duplicates = Array.from({ length: 3 }, () => store.transact([toHold("room", {}, "k")], RULES));
  await untilWaiting(url, 3);
  const [row] = await query<{ waiters: number }>(
    url,
    `SELECT count(*)::int AS waiters FROM pg_stat_activity AS held
      WHERE datname = current_database() AND state = 'idle in transaction'
        AND EXISTS (SELECT FROM pg_stat_activity AS a WHERE held.pid = ANY (pg_blocking_pids(a.pid)))`,
  );
  expect(row?.waiters).toBe(1);
  await letGo();
  const [first, ...others] = await Promise.all(duplicates);
  expect(others).toEqual([first, first]);
});

test("two requests for a resource without a row wait for each other, and one gets it", async (context) => {
  const url = await migrated(context);
  const stores = Array.from({ length: 4 }, () => storeOn(url));
  const answers = await Promise.all(stores.map((store) => store.transact([toHold("room")], RULES)));
  expect(answers.flat().filter(({ ok }) => ok)).toHaveLength(1);
  expect(
    answers.flat().filter((answer) => !answer.ok && answer.reason === "resource-unavailable"),
  ).toHaveLength(3);
});

test("the clock is read after the locks: a confirm that waited past expiresAt is too late", async (context) => {
  const url = await migrated(context);
  const [store, looking] = [storeOn(url), storeOn(url)];
  const placed = toHold("room", { durationMs: 600 });
  await store.transact([placed], RULES);
  const letGo = await holding(url, LOCK_ROOM);
  const { commitment } = await looking.get(NAMESPACE, placed.newId);
  const confirming = store.transact([asked("confirm", { id: placed.newId })], RULES);
  await untilWaiting(url, 1);
  while ((await looking.now()) < (commitment?.expiresAt as number))
    await new Promise((wake) => setTimeout(wake, 20));
  await letGo();
  expect(await confirming).toMatchObject([{ ok: false, reason: "window-elapsed" }]);
});

test("the wait for a lock is bounded, and nothing is written", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  await store.transact([asked("declare", { resource: "room", capacity: 1 })], RULES);
  const before = await rowCounts(url);
  const letGo = await holding(url, LOCK_ROOM);
  await expect(store.transact([toHold("room"), toHold("hall")], RULES)).rejects.toMatchObject({
    name: "NotWritten",
    cause: { code: "unavailable" },
  });
  expect(await rowCounts(url)).toEqual(before);
  await letGo();
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("a rejected hold leaves the row that ends its chain, and an answer without an event leaves no placeholder", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  const group = [
    asked("adjust", { resource: "room", capacity: 2 }),
    toHold("hall", { units: 2 }),
    toHold(" "),
  ];
  const answers = await store.transact(group, RULES);
  expect(answers).toMatchObject([
    { reason: "not-known" },
    { reason: "resource-unavailable" },
    { reason: "invalid-request" },
  ]);
  // A refusal is an event, of its resource if it names one. The row of the resource ends the chain of events.
  const counts = { keys: 3, resources: 2, commitments: 0, events: 3, checkpoints: 1 };
  expect(await rowCounts(url)).toEqual(counts);
  const { rows } = await store.resources({ namespace: NAMESPACE, limit: 9 });
  expect(rows).toMatchObject([
    { name: "hall", isDeclared: false, taken: 0, events: 1 },
    { name: "room", isDeclared: false, taken: 0, events: 1 },
  ]);
  const collides = toHold("attic", {}, group[0]?.key);
  expect(await store.transact([...group, collides], RULES)).toMatchObject([
    ...answers,
    { reason: "token-collision" },
  ]);
  expect(await rowCounts(url)).toEqual(counts);
});

test("an availability function that throws writes nothing and keeps the connection usable", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  const available = () => {
    throw new Error("the calendar is gone");
  };
  const failing = store.transact([toHold("room")], { ...RULES, available });
  await expect(failing).rejects.toMatchObject({
    name: "NotWritten",
    cause: { message: "the calendar is gone" },
  });
  expect(await rowCounts(url)).toMatchObject({ keys: 0, resources: 0 });
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
});

test("as many elapsed holds as needed are expired, however many there are", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  await store.transact([asked("declare", { resource: "room", capacity: 5 })], RULES);
  const short = Array.from({ length: 5 }, () => toHold("room", { durationMs: 1 }));
  await store.transact(short, RULES);
  const last = Math.max(...(await allCommitments(store)).map(({ expiresAt }) => expiresAt));
  while ((await store.now()) < last) await new Promise((wake) => setTimeout(wake, 1));
  expect(await store.transact([toHold("room", { units: 3 })], RULES)).toMatchObject([{ ok: true }]);
  const states = (await allCommitments(store)).map(({ state }) => state).sort();
  expect(states).toEqual(["expired", "expired", "expired", "held", "held", "held"]);
});

test("purge skips locked keys, and removes them the next time", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  await store.transact([toHold("a", {}, "a"), toHold("b", {}, "b")], { ...RULES, windowMs: 1 });
  const until = (await store.now()) + 2;
  while ((await store.now()) < until) await new Promise((wake) => setTimeout(wake, 1));
  const { keyId } = toHold("a", {}, "a");
  const letGo = await holding(
    url,
    `SELECT FROM nevertwice_reservation_keys WHERE id = '${keyId}' FOR UPDATE`,
  );
  expect(await store.purge(10)).toEqual({ removed: 1, more: false });
  await letGo();
  expect(await store.purge(1)).toEqual({ removed: 1, more: true });
  expect(await store.purge(1)).toEqual({ removed: 0, more: false });
  expect(await rowCounts(url)).toMatchObject({ keys: 0, commitments: 2 });
});

for (const isolation of ["read committed", "serializable"])
  test(`groups that share keys and resources never deadlock with ${isolation} as default isolation`, async (context) => {
    const url = await migrated(context);
    await setFor(url, { default_transaction_isolation: isolation });
    const stores = Array.from({ length: 4 }, () => storeOn(url));
    const rooms = Array.from({ length: 8 }, (_, i) => `room-${i}`);
    const [first] = stores as [PostgresReservations];
    await first.transact(
      rooms.slice(0, 4).map((resource) => asked("declare", { resource, capacity: 3 })),
      RULES,
    );
    const ids: string[] = [];
    const storm = stores.map(async (store) => {
      for (let round = 0; round < 40; round++) {
        const group = Array.from({ length: 12 }, () => anyAction(rooms, ids));
        const answers = await store.transact(group, RULES);
        for (const answer of answers) if ("id" in answer) ids.push(answer.id);
      }
    });
    await Promise.all(storm);
    await expectConserved(first);
  });

test("many concurrent clients never hold more units than the capacity", async (context) => {
  const url = await migrated(context);
  const clients = Array.from({ length: 4 }, () => {
    const reservations = createReservations({
      store: storeOn(url),
      namespace: NAMESPACE,
      windowMs: 3_600_000,
      actionMs: 60_000,
      purgeEveryMs: 0,
    });
    onTestFinished(() => reservations.close());
    return reservations;
  });
  await clients[0]?.resources.declare({ resource: "room", capacity: 100, key: "declare" });
  const request = { resource: "room", requester: "ann", durationMs: 3_600_000 };
  const answers = await Promise.all(
    clients.flatMap((client) =>
      Array.from({ length: 60 }, () => client.placeHold({ ...request, key: randomUUID() })),
    ),
  );
  expect(answers.filter(({ ok }) => ok)).toHaveLength(100);
  await expectConserved(storeOn(url));
});

function anyAction(rooms: readonly string[], ids: readonly string[]) {
  // Few keys, so that groups collide on them too.
  const key = `key-${randomInt(400)}`;
  const id = ids[randomInt(Math.max(1, ids.length))] ?? "nothing";
  const resource = rooms[randomInt(rooms.length)] as string;
  switch (randomInt(5)) {
    case 0:
      return asked("confirm", { id }, key);
    case 1:
      return asked("release", { id }, key);
    case 2:
      return asked("giveBack", { id }, key);
    default:
      return toHold(resource, { durationMs: 1 + randomInt(200) }, key);
  }
}

const allCommitments = (store: PostgresReservations) => readAll(store.commitments, NAMESPACE);

/** Checks that the units taken equal the units occupied, and that no hold ended twice. */
async function expectConserved(store: PostgresReservations): Promise<void> {
  const [commitments, resources, events] = await Promise.all([
    allCommitments(store),
    readAll(store.resources, NAMESPACE),
    readAll(store.events, NAMESPACE),
  ]);
  expect(commitments.length).toBeGreaterThan(20);
  for (const { name, taken, capacity } of resources) {
    const occupied = commitments.filter(({ resource }) => resource === name).map((row) => row.occupied);
    expect({ name, taken }).toEqual({ name, taken: occupied.reduce((sum, units) => sum + units, 0) });
    expect(taken).toBeLessThanOrEqual(capacity);
  }
  for (const { id, state } of commitments) {
    const ends = events.filter(
      ({ subject, kind }) => subject === `commitment:${id}` && kind !== "placed" && kind !== "given-back",
    );
    expect({ id, ends: ends.map(({ kind }) => kind) }).toEqual({ id, ends: state === "held" ? [] : [state] });
  }
}
