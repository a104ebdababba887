/** Tests the store of Durable Objects in workerd: its objects and their number, its waiters, purges and errors. Needs the build. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { durableObjectStore } from "../../src/stores/durable-objects.ts";
import { claimOf } from "../stores/claim-request.ts";
import { NEWER_KEYS, newerKeysSql } from "../stores/sqlite/newer-keys.ts";
import { type RemoteStore, remoteStore } from "./remote-store.ts";
import { BINDINGS, type Runtime, startRuntime } from "./runtime.ts";

const OBJECTS = {
  durableObjects: {
    ...BINDINGS.durableObjects,
    PATIENT: { className: "PatientObject", useSQLite: true },
    SHORT: { className: "ShortObject", useSQLite: true },
    KEY_VALUE: { className: "KeyValueObject", useSQLite: false },
    STRANGER: { className: "Stranger", useSQLite: true },
    FAILING: { className: "Failing", useSQLite: true },
  },
};

let runtime: Runtime;
beforeAll(async () => {
  runtime = await startRuntime("store-calls.ts", [], OBJECTS);
});
afterAll(() => runtime.stop());

const open = (options: object = {}): RemoteStore => remoteStore(runtime, { name: randomUUID(), ...options });

describe("the number of objects", () => {
  test("is refused if it is not the one that the records were written with, by old and by new objects", async () => {
    const name = randomUUID();
    const four = open({ name, shards: 4 });
    const keys = Array.from({ length: 12 }, (_, number) => claimOf(`key-${number}`));
    for (const key of keys) expect(await four.claim(key)).toMatchObject({ status: "new" });
    const sixteen = open({ name, shards: 16 });
    for (const key of keys)
      await expect(sixteen.claim({ ...key, token: randomUUID() })).rejects.toThrow(
        /store-unsafe: these records are spread over 4 objects.*set shards: 4/,
      );
    expect(await four.claim(claimOf("key-0"))).toMatchObject({ status: "pending" });
  });

  test("is confirmed once for each object, which takes two more requests", async () => {
    const store = open({ shards: 1_024 });
    const claim = claimOf("first");
    await store.claim(claim);
    expect(store.trips()).toBe(3);
    await store.complete({ id: claim.id, token: claim.token, outcome: "done", retentionMs: 60_000 });
    expect(store.trips()).toBe(1);
  });

  test("spreads the keys over all objects", async () => {
    const store = open({ shards: 4 });
    const keys = Array.from({ length: 40 }, (_, number) => claimOf(`spread-${number}`));
    for (const key of keys) await store.claim(key);
    const { rows } = (await store.first({ path: "/inspect" })) as { rows: number };
    expect(rows).toBeGreaterThan(1);
    expect(rows).toBeLessThan(30);
  });
});

test("a first call takes two requests, a replay, a renewal and a read one each", async () => {
  const store = open({ shards: 1 });
  const claim = claimOf("trips");
  const trips: number[] = [];
  for (const call of [
    () => store.claim(claim),
    () => store.complete({ id: claim.id, token: claim.token, outcome: "done", retentionMs: 60_000 }),
    () => store.claim(claimOf("trips")),
    () => store.renew({ id: claim.id, token: claim.token, leaseMs: 60_000 }),
    () => store.read(claim.id),
  ]) {
    await call();
    trips.push(store.trips());
  }
  expect(trips).toEqual([1, 1, 1, 1, 1]);
});

test("of claims in overlapping requests one is new", async () => {
  const store = open();
  const answers = await Promise.all(Array.from({ length: 50 }, () => store.claim(claimOf("at-once"))));
  expect(answers.filter(({ status }) => status === "new")).toHaveLength(1);
  expect(answers.filter(({ status }) => status === "pending")).toHaveLength(49);
});

test("a step whose answer was lost is recognised when it is repeated", async () => {
  const store = open({ shards: 1 });
  const claim = claimOf("lost");
  const { id, token } = claim;
  const completion = { id, token, outcome: "done", retentionMs: 60_000 };
  const lost = async (call: () => Promise<unknown>) => {
    await store.traffic({ toLose: 1 });
    await expect(call()).rejects.toThrow(/unavailable: the Durable Object did not answer \(Network/);
  };
  await lost(() => store.claim(claim));
  expect(await store.claim(claim)).toMatchObject({ status: "new", number: 1 });
  await lost(() => store.complete(completion));
  expect(await store.complete(completion)).toBe(true);
  expect(await store.claim(claimOf("lost"))).toEqual({ status: "completed", outcome: "done" });
});

test("an outcome of the largest size comes back, and a larger one is refused", async () => {
  const store = open({ shards: 1 });
  const claim = claimOf("large");
  const { id, token } = claim;
  await store.claim(claim);
  const complete = (outcome: string) => store.complete({ id, token, outcome, retentionMs: 60_000 });
  await expect(complete("x".repeat(5_000_000))).rejects.toThrow(/options-invalid: a string is longer/);
  const outcome = "y".repeat(1_900_000);
  expect(await complete(outcome)).toBe(true);
  expect(await store.claim(claimOf("large"))).toEqual({ status: "completed", outcome });
});

test("a step that fails half-way leaves nothing behind", async () => {
  const store = open({ shards: 1 });
  await store.claim(claimOf("opens the tables"));
  const fails = "BEFORE UPDATE ON nevertwice_store BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
  await store.first({ path: "/sql", body: `CREATE TRIGGER half_way ${fails}` });
  await expect(store.claim(claimOf("half"))).rejects.toThrow();
  await store.first({ path: "/sql", body: "DROP TRIGGER half_way" });
  expect(await store.claim(claimOf("half"))).toMatchObject({ status: "new", number: 1 });
});

test("a row that was damaged is refused, and hides no other", async () => {
  const store = open({ shards: 1 });
  const [bad, good] = [claimOf("bad"), claimOf("good")];
  await store.claim(bad);
  await store.claim(good);
  const body = `UPDATE nevertwice_records SET number = 'many' WHERE token = '${bad.token}'`;
  await store.first({ path: "/sql", body });
  await expect(store.read(bad.id)).rejects.toThrow(/store-unsafe/);
  const page = await store.list({ namespace: "n", limit: 10 });
  expect(page.records.map(({ id }) => id)).toEqual([good.id]);
  expect(page.unreadable?.map(({ id }) => id)).toEqual([bad.id]);
});

describe("a list", () => {
  test("has the records of all objects once, page by page", async () => {
    const store = open({ shards: 5 });
    const ids = new Set<string>();
    for (let number = 0; number < 23; number++) {
      const claim = claimOf(`listed-${number}`);
      ids.add(claim.id);
      await store.claim(claim);
    }
    const listed: string[] = [];
    let after: string | undefined;
    do {
      const page = await store.list({ namespace: "n", limit: 4, ...(after && { after }) });
      expect(page.records.length).toBeLessThanOrEqual(4);
      listed.push(...page.records.map(({ id }) => id));
      after = page.next;
    } while (after !== undefined);
    expect(listed).toHaveLength(23);
    expect(new Set(listed)).toEqual(ids);
  });
});

test("the oldest of many keys is found by its exact text", async () => {
  const store = open({ shards: 1 });
  const claim = claimOf("old");
  await store.claim(claim);
  await store.first({ path: "/sql", body: newerKeysSql(claim.token, "old") });
  const page = await store.list({ namespace: "n", key: "old", limit: 5 });
  expect(page.records.map(({ id }) => id)).toEqual([claim.id]);
  expect(page).not.toHaveProperty("next");
  expect((await store.list({ namespace: "n", key: `newer-${NEWER_KEYS}`, limit: 5 })).records).toHaveLength(
    1,
  );
});

describe("a waiter", () => {
  test("is woken by a completion in another request", async () => {
    const store = open();
    const claim = claimOf("waited");
    await store.claim(claim);
    const waiting = store.wake({ id: claim.id });
    await new Promise((resolve) => setTimeout(resolve, 300));
    await store.complete({ id: claim.id, token: claim.token, outcome: "done", retentionMs: 60_000 });
    const { afterMs } = await waiting;
    // An object ends the wait itself only after 15 seconds.
    expect(afterMs).toBeGreaterThanOrEqual(200);
    expect(afterMs).toBeLessThan(12_000);
  });

  test("looks itself when the object has held it long enough", async () => {
    const { afterMs } = await open({ binding: "SHORT" }).wake({ id: "nobody" });
    expect(afterMs).toBeGreaterThanOrEqual(490);
  });

  test("polls where the object holds too many others, and is held when they have gone", async () => {
    const store = open({ binding: "SHORT", shards: 1 });
    const held = Array.from({ length: 3 }, () => store.wake({ id: "crowded" }));
    await expect
      .poll(() => store.wake({ id: "crowded" }).catch(String))
      .toMatch(/unavailable: .*too many waiters/);
    await Promise.all(held);
    expect(await store.wake({ id: "crowded" })).toMatchObject({ afterMs: expect.any(Number) });
  });
});

test("with enable_request_signal, the place of a waiter that has gone is free at once", async () => {
  const telling = await startRuntime("store-calls.ts", ["enable_request_signal"], OBJECTS);
  onTestFinished(() => telling.stop());
  const store = remoteStore(telling, { binding: "PATIENT", shards: 1 });
  // Three are held at a time, each for minutes unless the object learns that it has gone.
  for (let round = 0; round < 3; round++)
    await expect
      .poll(() => Promise.all([1, 2, 3].map(() => store.wake({ id: "gone", stopMs: 50 }))).catch(String))
      .toEqual([{}, {}, {}]);
});

describe("the alarm of an object", () => {
  const HOUR_MS = 3_600_000;
  interface Inspection {
    readonly rows: number;
    readonly alarmInMs: number | null;
  }
  const inspect = (store: RemoteStore) => store.first({ path: "/inspect" }) as Promise<Inspection>;

  test("is set for the time when its first record has expired, and not moved by later ones", async () => {
    const store = open({ shards: 1 });
    await store.claim(claimOf("a", { retentionMs: HOUR_MS }));
    const { alarmInMs } = await inspect(store);
    expect(alarmInMs).toBeGreaterThan(HOUR_MS);
    expect(alarmInMs).toBeLessThan(HOUR_MS + 20 * 60_000);
    await store.claim(claimOf("b", { retentionMs: 9 * HOUR_MS }));
    expect((await inspect(store)).alarmInMs).toBeLessThanOrEqual(alarmInMs as number);
    await store.claim(claimOf("c", { retentionMs: 60_000 }));
    expect((await inspect(store)).alarmInMs).toBeLessThan(HOUR_MS / 2);
  });

  test("purges what has expired, leaves the rest, and is set again for it", async () => {
    const store = open({ shards: 1 });
    for (const key of ["a", "b", "c"]) await store.claim(claimOf(key, { retentionMs: HOUR_MS }));
    await store.claim(claimOf("held", { retentionMs: HOUR_MS, hold: true }));
    await store.claim(claimOf("later", { retentionMs: 9 * HOUR_MS }));
    await store.first({ path: "/advance", body: String(2 * HOUR_MS) });
    await store.first({ path: "/ring" });
    await expect.poll(() => inspect(store)).toMatchObject({ rows: 2 });
    const { alarmInMs } = await inspect(store);
    expect(alarmInMs).toBeGreaterThan(6 * HOUR_MS);
    expect(alarmInMs).toBeLessThan(9 * HOUR_MS);
  });

  test("purges thousands of records in small steps", async () => {
    const store = open({ shards: 1 });
    const keys = Array.from({ length: 1_100 }, (_, number) =>
      claimOf(`many-${number}`, { retentionMs: 1_000 }),
    );
    for (let from = 0; from < keys.length; from += 100)
      await Promise.all(keys.slice(from, from + 100).map((key) => store.claim(key)));
    await store.first({ path: "/advance", body: String(HOUR_MS) });
    const { rows, alarmInMs } = (await store.first({ path: "/alarm" })) as Inspection;
    expect(rows).toBe(600);
    expect(alarmInMs).toBeLessThanOrEqual(1_000);
    // The runtime rings for the rest.
    await expect.poll(() => inspect(store)).toMatchObject({ rows: 0, alarmInMs: null });
  });
});

describe("what cannot work is refused with what to do", () => {
  const notBound =
    /options-invalid: durableObjectStore needs the binding of a Durable Object class.*durable_objects.bindings/;

  test("a class without a SQLite database", async () => {
    await expect(open({ binding: "KEY_VALUE" }).claim(claimOf("a"))).rejects.toThrow(
      /store-unsafe: the Durable Object class has no SQLite database; list it under new_sqlite_classes/,
    );
  });

  test("a class that is another one", async () => {
    await expect(open({ binding: "STRANGER" }).claim(claimOf("a"))).rejects.toThrow(
      /store-unsafe: the object answered with status 418: the binding must be that of the class NevertwiceObject/,
    );
  });

  test("an object that fails is unavailable", async () => {
    await expect(open({ binding: "FAILING" }).claim(claimOf("a"))).rejects.toThrow(
      /unavailable: the Durable Object did not answer .*broken on purpose/,
    );
  });

  test("a binding that is missing", async () => {
    await expect(open({ binding: "MISSING" }).claim(claimOf("a"))).rejects.toThrow();
    await expect(durableObjectStore(() => undefined as never).read("a")).rejects.toThrow(notBound);
    expect(() => durableObjectStore(undefined as never)).toThrow(notBound);
    expect(() => durableObjectStore({} as never)).toThrow(notBound);
  });

  test("options that are wrong", () => {
    const namespace = { idFromName: () => ({}), get: () => ({}) as never };
    expect(() => durableObjectStore(namespace, { shards: 0 })).toThrow(/options-invalid: shards is 0/);
    expect(() => durableObjectStore(namespace, { shards: 2_000 })).toThrow(
      /shards is 2000; it must be at most 1024/,
    );
    expect(() => durableObjectStore(namespace, { shard: 2 } as never)).toThrow(/no option called "shard"/);
    expect(() => durableObjectStore(namespace, { name: "" })).toThrow(/name is ""/);
  });

  test("a store that was closed", async () => {
    const store = durableObjectStore({ idFromName: () => ({}), get: () => ({}) as never });
    await store.close();
    await expect(store.read("a")).rejects.toThrow("unavailable: the store of Durable Objects is closed.");
  });

  test("text that drivers of SQLite cut off", async () => {
    await expect(open().claim(claimOf("a", { token: "cut\u0000off" }))).rejects.toThrow(
      /options-invalid: .*U\+0000/,
    );
  });
});

test("the doctor says what Cloudflare documents, and what it could not check", async () => {
  const said = await open({ name: "shop", shards: 4 }).diagnose();
  expect(said).toContain("Durable Objects shop, 4 objects");
  expect(said).toMatch(/failover\s+yes\s+as Cloudflare documents it/);
  expect(said).toContain("nothing here can read or check that setting");
  expect(said).toContain("note: under wrangler dev and miniflare the objects are files on this machine");
  expect(said).toContain("the number of objects cannot be changed later");
});
