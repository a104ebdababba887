/** Tests `guard.transaction` on the SQLite connection that the store uses: the write and the record commit together. */
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { createGuard, type Guard, type GuardOptions } from "../../src/index.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";

interface Scene {
  readonly database: InstanceType<typeof DatabaseSync>;
  readonly guard: Guard;
  readonly asked: { readonly operation: string; readonly key: string };
  ledger(): number;
}

function createScene(options: Partial<GuardOptions> = {}): Scene {
  const database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE ledger (key TEXT NOT NULL)");
  const guard = createGuard({ store: sqliteStore({ database }), purgeEveryMs: 0, ...options });
  onTestFinished(async () => {
    await guard.close();
    database.close();
  });
  return {
    database,
    guard,
    asked: { operation: "pay", key: randomUUID() },
    ledger: () =>
      Number((database.prepare("SELECT count(*) AS count FROM ledger").get() as { count: number }).count),
  };
}

const insert = (database: InstanceType<typeof DatabaseSync>, key: string) =>
  database.prepare("INSERT INTO ledger VALUES (?)").run(key);

test("commits the write and the record together, and duplicates get the same value", async () => {
  const { database, guard, asked, ledger } = createScene();
  let runs = 0;
  const pay = () =>
    guard.transaction(asked, database, (tx) => {
      insert(tx, asked.key);
      return { paid: ++runs };
    });
  const others = Array.from({ length: 20 }, (_, index) =>
    guard.run({ operation: "other", key: `${index}` }, () => index),
  );
  const values = await Promise.all([...Array.from({ length: 20 }, pay), ...others]);
  expect(values.slice(0, 20)).toEqual(new Array(20).fill({ paid: 1 }));
  expect(ledger()).toBe(1);
});

test("rolls the write back when the work throws, and releases the key", async () => {
  const { database, guard, asked, ledger } = createScene();
  const failing = guard.transaction(asked, database, (tx) => {
    insert(tx, asked.key);
    throw new Error("card declined");
  });
  await expect(failing).rejects.toThrow("card declined");
  expect(ledger()).toBe(0);
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
});

test("rolls back and refuses work that returns a promise", async () => {
  const { database, guard, asked, ledger } = createScene();
  const asynchronous = guard.transaction(asked, database, async (tx) => void insert(tx, asked.key));
  await expect(asynchronous).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("returned a promise"),
  });
  expect(ledger()).toBe(0);
});

test("work that commits by itself ends unknown, also if it throws afterwards", async () => {
  const { database, guard, asked, ledger } = createScene({ onLapsed: "hold" });
  for (const isThrowing of [false, true]) {
    const request = { ...asked, key: `${isThrowing}` };
    const leaving = guard.transaction(request, database, (tx) => {
      insert(tx, request.key);
      tx.exec("COMMIT");
      if (isThrowing) throw new Error("after the commit");
    });
    await expect(leaving).rejects.toMatchObject({ code: "unknown" });
    expect(await guard.read(request)).toMatchObject({ state: "lapsed" });
  }
  expect(ledger()).toBe(2);
});

test("refuses another connection, and a store that opened its file itself", async () => {
  const { guard, asked } = createScene();
  const other = new DatabaseSync(":memory:");
  onTestFinished(() => other.close());
  await expect(guard.transaction(asked, other, () => 1)).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("not the connection of the store"),
  });
  const store = sqliteStore({ file: join(tmpdir(), `never-opened-${randomUUID()}.db`) });
  const fileGuard = createGuard({ store, purgeEveryMs: 0 });
  onTestFinished(async () => {
    await fileGuard.close();
    await store.close();
  });
  await expect(fileGuard.transaction(asked, other, () => 1)).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("cannot share a transaction"),
  });
});
