/**
 * Tests `guard.transaction` on a real MariaDB: the write of the work and its record commit together or not at all. The rows
 * of the table `ledger` count what was committed, without asking the library.
 */
import { randomUUID } from "node:crypto";
import type { Pool } from "mysql2/promise";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import { createGuard, type Guard, type GuardOptions } from "../../src/index.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { mysqlDatabase } from "../../src/transaction/mysql2.ts";
import { startProxy } from "../services/proxy.ts";
import { newDatabase, newStore, poolOn } from "./mysql/pools.ts";

interface Scene {
  readonly url: string;
  readonly pool: Pool;
  readonly guard: Guard;
  readonly asked: { readonly operation: string; readonly key: string };
  ledger(): Promise<number>;
}

async function createScene(context: TestContext, options: Partial<GuardOptions> = {}): Promise<Scene> {
  const { url, pool, store } = await newStore(context);
  await pool.query("CREATE TABLE ledger (`key` VARCHAR(64) NOT NULL) ENGINE = InnoDB");
  const guard = createGuard({ store, purgeEveryMs: 0, ...options });
  onTestFinished(async () => void (await guard.close()));
  return {
    url,
    pool,
    guard,
    asked: { operation: "pay", key: randomUUID() },
    async ledger() {
      const [rows] = await pool.query("SELECT COUNT(*) AS count FROM ledger");
      return Number((rows as { count: unknown }[])[0]?.count);
    },
  };
}

const insert = (key: string) => `INSERT INTO ledger VALUES ('${key}')`;

test("commits the write and the record together, and a duplicate gets the same value", async (context) => {
  const { guard, pool, asked, ledger } = await createScene(context);
  let runs = 0;
  const pay = () =>
    guard.transaction(asked, pool, async (tx) => {
      await tx.query(insert(asked.key));
      return { paid: ++runs };
    });
  const values = await Promise.all(Array.from({ length: 10 }, pay));
  expect(new Set(values.map(({ paid }) => paid))).toEqual(new Set([1]));
  expect(await ledger()).toBe(1);
  const [[row]] = (await pool.query("SELECT state, outcome FROM nevertwice_records")) as never as [
    [{ state: string }],
  ];
  expect(row.state).toBe("completed");
});

test("rolls the write back when the work throws, and releases the key", async (context) => {
  const { guard, pool, asked, ledger } = await createScene(context);
  const failing = guard.transaction(asked, pool, async (tx) => {
    await tx.query(insert(asked.key));
    throw new Error("card declined");
  });
  await expect(failing).rejects.toThrow("card declined");
  expect(await ledger()).toBe(0);
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
});

for (const side of ["cutRequest", "cutReply"] as const) {
  test(`tells the truth when COMMIT is lost by ${side}`, async (context) => {
    const { url, guard, asked, ledger } = await createScene(context);
    const proxy = await startProxy(url);
    onTestFinished(() => proxy.stop());
    const remote = poolOn(context, proxy.url);
    let runs = 0;
    const value = await guard.transaction(asked, remote, async (tx) => {
      await tx.query(insert(asked.key));
      runs++;
      if (runs === 1) proxy[side](1, (chunk) => chunk.toString("latin1").includes("COMMIT"));
      return runs;
    });
    expect(value).toBe(side === "cutRequest" ? 2 : 1);
    expect(await ledger()).toBe(1);
    expect(await guard.read(asked)).toMatchObject({ state: "completed" });
  });
}

test("answers unknown when COMMIT gets no answer and the record stays locked", async (context) => {
  const { url, guard, asked, ledger } = await createScene(context, {
    storeTimeoutMs: 500,
    transactionMs: 1_000,
    onLapsed: "hold",
  });
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  const remote = mysqlDatabase(poolOn(context, proxy.url));
  const database: typeof remote = {
    ...remote,
    transact: (body, limits) =>
      remote.transact(async (tx, run) => {
        await body(tx, run);
        proxy.silence();
      }, limits),
  };
  const lost = guard.transaction(asked, database, (tx) => tx.query(insert(asked.key)).then(() => "paid"));
  await expect(lost).rejects.toMatchObject({ code: "unknown" });
  proxy.cutAll();
  await expect.poll(async () => (await guard.read(asked))?.state).toBe("lapsed");
  expect(await ledger()).toBe(0);
});

test("a statement that commits implicitly ends unknown, also if the work throws afterwards", async (context) => {
  const { guard, pool, asked, ledger } = await createScene(context, { onLapsed: "hold" });
  for (const isThrowing of [false, true]) {
    const request = { ...asked, key: `${asked.key}-${isThrowing}` };
    const leaving = guard.transaction(request, pool, async (tx) => {
      await tx.query(insert(asked.key));
      await tx.query(`CREATE TABLE side_${isThrowing} (id INT)`);
      if (isThrowing) throw new Error("after the commit");
    });
    await expect(leaving).rejects.toMatchObject({ code: "unknown" });
    expect(await guard.read(request)).toMatchObject({ state: "lapsed" });
  }
  expect(await ledger()).toBe(2);
});

test("a deadlock repeats the transaction under the same claim", async (context) => {
  const { guard, pool, asked, ledger } = await createScene(context);
  await pool.query("CREATE TABLE balance (id INT PRIMARY KEY, amount INT) ENGINE = InnoDB");
  await pool.query("INSERT INTO balance VALUES (1, 0), (2, 0)");
  const other = await pool.getConnection();
  let runs = 0;
  let rival: Promise<unknown> = Promise.resolve();
  await guard.transaction(asked, pool, async (tx) => {
    runs++;
    await tx.query(insert(asked.key));
    await tx.query("UPDATE balance SET amount = amount + 1 WHERE id = 1");
    if (runs === 1) {
      await other.query("START TRANSACTION");
      // The server ends the transaction that changed fewer rows.
      await other.query("INSERT INTO ledger SELECT CONCAT('rival-', seq) FROM seq_1_to_50");
      await other.query("UPDATE balance SET amount = amount + 1 WHERE id = 2");
      rival = other
        .query("UPDATE balance SET amount = amount + 1 WHERE id = 1")
        .then(() => other.query("ROLLBACK"));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await tx.query("UPDATE balance SET amount = amount + 1 WHERE id = 2");
  });
  await rival;
  other.release();
  expect(runs).toBe(2);
  expect(await ledger()).toBe(1);
});

test("ends a transaction that takes longer than transactionMs, with everything that it wrote", async (context) => {
  const { guard, pool, asked, ledger } = await createScene(context, { transactionMs: 300 });
  let late: Promise<unknown> | undefined;
  const slow = guard.transaction(asked, pool, async (tx) => {
    await tx.query(insert(asked.key));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    late = tx.query(insert(asked.key)).catch((error: unknown) => error);
  });
  await expect(slow).rejects.toMatchObject({ code: "unavailable" });
  await expect.poll(() => late).toBeDefined();
  await late;
  expect(await ledger()).toBe(0);
});

test("leaves the settings of the connection as they were", async (context) => {
  const { url, guard, asked } = await createScene(context);
  const single = poolOn(context, url, { connectionLimit: 1 });
  const limit = async () => {
    const [rows] = await single.query("SELECT @@SESSION.idle_transaction_timeout AS seconds");
    return (rows as { seconds: number }[])[0]?.seconds;
  };
  const before = await limit();
  await guard.transaction(asked, single, async (tx) => {
    const [rows] = await tx.query("SELECT @@SESSION.idle_transaction_timeout AS seconds");
    expect((rows as { seconds: number }[])[0]?.seconds).toBe(31);
  });
  expect(await limit()).toBe(before);
  await guard
    .transaction({ ...asked, key: "throws" }, single, () => Promise.reject(new Error("no")))
    .catch(() => {});
  expect(await limit()).toBe(before);
});

test("runs nothing when the record is in another database", async (context) => {
  const { guard, asked } = await createScene(context);
  const elsewhere = poolOn(context, await newDatabase(context));
  let runs = 0;
  const pay = () => guard.transaction(asked, elsewhere, () => ++runs);
  await expect(pay()).rejects.toMatchObject({ code: "options-invalid" });
  await mysqlStore({ client: elsewhere }).migrate();
  await expect(pay()).rejects.toMatchObject({ code: "options-invalid" });
  expect(runs).toBe(0);
});
