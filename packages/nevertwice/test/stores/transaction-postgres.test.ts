/**
 * Tests `guard.transaction` on a real Postgres, with `pg` and postgres.js: the write of the work and its record commit
 * together or not at all. The rows of the table `ledger` count what was committed, without asking the library.
 */
import { randomUUID } from "node:crypto";
import type pg from "pg";
import postgres from "postgres";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { StatementTransactions } from "../../src/core/store-transactions.ts";
import { createGuard, type Guard, type GuardOptions } from "../../src/index.ts";
import { migrationSql, postgresStore } from "../../src/stores/postgres.ts";
import { pgDatabase } from "../../src/transaction/pg.ts";
import { startPostgres } from "../services/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf, completionOf, createDatabase, poolOf, query, until } from "./postgres/database.ts";

let url = "";

beforeEach(async (context) => {
  if (url !== "") return;
  url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, `${migrationSql()}; CREATE TABLE ledger (key text NOT NULL, note text)`);
});

const request = (more: object = {}) => ({ operation: "pay", key: randomUUID(), ...more });

async function ledgerOf({ key }: { readonly key: string }): Promise<number> {
  const [row] = await query<{ count: string }>(url, `SELECT count(*) FROM ledger WHERE key = '${key}'`);
  return Number(row?.count);
}

function pooled(to = url, options: pg.PoolConfig = {}): pg.Pool {
  const pool = poolOf(to, options);
  onTestFinished(() => pool.end());
  return pool;
}

function guardOn(pool: pg.Pool, options: Partial<GuardOptions> = {}): Guard {
  const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0, ...options });
  onTestFinished(async () => void (await guard.close()));
  return guard;
}

/** How each driver runs a transaction, and how its work writes to the ledger. */
const DRIVERS = {
  pg(to: string) {
    const pool = pooled(to);
    return {
      transact: <T>(guard: Guard, asked: { key: string }, work: (write: () => Promise<unknown>) => T) =>
        guard.transaction(asked as never, pool, async (tx) =>
          work(() => tx.query("INSERT INTO ledger VALUES ($1)", [asked.key])),
        ),
    };
  },
  "postgres.js"(to: string) {
    const sql = postgres(to, { max: 4, onnotice: () => {} });
    onTestFinished(() => sql.end({ timeout: 1 }));
    return {
      transact: <T>(guard: Guard, asked: { key: string }, work: (write: () => Promise<unknown>) => T) =>
        guard.transaction(asked as never, sql, async (tx) =>
          work(async () => tx`INSERT INTO ledger VALUES (${asked.key})`),
        ),
    };
  },
};

for (const [name, connect] of Object.entries(DRIVERS)) {
  describe(name, () => {
    test("commits the write and the record together, and a duplicate gets the same value", async () => {
      const { transact } = connect(url);
      const guard = guardOn(pooled());
      const asked = request();
      const pay = () =>
        transact(guard, asked, async (write) => {
          await write();
          return { paid: 5 };
        });
      expect(await pay()).toEqual({ paid: 5 });
      expect(await pay()).toEqual({ paid: 5 });
      expect(await ledgerOf(asked)).toBe(1);
    });

    test("fifty callers at once run the work once", async () => {
      const { transact } = connect(url);
      const guard = guardOn(pooled());
      const asked = request();
      let runs = 0;
      const values = await Promise.all(
        Array.from({ length: 50 }, () =>
          transact(guard, asked, async (write) => {
            await write();
            return ++runs;
          }),
        ),
      );
      expect(new Set(values)).toEqual(new Set([1]));
      expect(await ledgerOf(asked)).toBe(1);
    });

    test("rolls the write back when the work throws, and releases the key", async () => {
      const { transact } = connect(url);
      const guard = guardOn(pooled());
      const asked = request();
      const failing = transact(guard, asked, async (write) => {
        await write();
        throw new Error("card declined");
      });
      await expect(failing).rejects.toThrow("card declined");
      expect(await ledgerOf(asked)).toBe(0);
      expect(await guard.read(asked)).toMatchObject({ state: "released" });
      await transact(guard, asked, (write) => write().then(() => "paid"));
      expect(await ledgerOf(asked)).toBe(1);
    });

    for (const side of ["cutRequest", "cutReply"] as const) {
      test(`tells the truth when COMMIT is lost by ${side}`, async () => {
        const proxy = await startProxy(url);
        onTestFinished(() => proxy.stop());
        const { transact } = connect(proxy.url);
        const guard = guardOn(pooled());
        const asked = request();
        let runs = 0;
        const value = await transact(guard, asked, async (write) => {
          await write();
          runs++;
          cutCommit(proxy, side, runs);
          return runs;
        });
        // A COMMIT that never arrived rolled back, so the transaction ran again under the same claim.
        expect(value).toBe(side === "cutRequest" ? 2 : 1);
        expect(runs).toBe(side === "cutRequest" ? 2 : 1);
        expect(await ledgerOf(asked)).toBe(1);
        expect(await guard.read(asked)).toMatchObject({ state: "completed" });
      });
    }

    test("ends a transaction whose connection falls silent before its completion", async () => {
      const proxy = await startProxy(url);
      onTestFinished(() => proxy.stop());
      const { transact } = connect(proxy.url);
      const guard = guardOn(pooled(), { storeTimeoutMs: 5_000, transactionMs: 1_000 });
      const asked = request();
      const lost = transact(guard, asked, async (write) => {
        await write();
        proxy.silence();
      });
      await expect(lost).rejects.toMatchObject({ code: "unavailable" });
      expect(await ledgerOf(asked)).toBe(0);
    });

    test("ends a transaction that takes longer than transactionMs, with everything that it wrote", async () => {
      const { transact } = connect(url);
      const guard = guardOn(pooled(), { transactionMs: 300 });
      const asked = request();
      let late: Promise<unknown> | undefined;
      const slow = transact(guard, asked, async (write) => {
        await write();
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        late = Promise.resolve(write()).catch((error: unknown) => error);
        return "late";
      });
      await expect(slow).rejects.toMatchObject({ code: "unavailable" });
      await expect.poll(() => late).toBeDefined();
      await late;
      expect(await ledgerOf(asked)).toBe(0);
      await transact(guard, asked, (write) => write().then(() => "paid"));
      expect(await ledgerOf(asked)).toBe(1);
    });

    test("refuses another transaction on the same database inside its work", async () => {
      const { transact } = connect(url);
      const guard = guardOn(pooled());
      const outer = request();
      const inner = request();
      const nested = transact(guard, outer, () => transact(guard, inner, (write) => write()));
      await expect(nested).rejects.toMatchObject({
        code: "options-invalid",
        message: expect.stringContaining("once(tx"),
      });
      expect(await ledgerOf(inner)).toBe(0);
    });
  });
}

/** The first time only: the repeated transaction gets through. */
function cutCommit(proxy: FaultProxy, side: "cutRequest" | "cutReply", runs: number): void {
  if (runs === 1) proxy[side](1, (chunk) => /commit/i.test(chunk.toString("latin1")));
}

test("answers unknown when COMMIT gets no answer and the record stays locked, and never a wrong answer later", async () => {
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  const remote = pgDatabase(pooled(proxy.url));
  const guard = guardOn(pooled(), { storeTimeoutMs: 500, transactionMs: 2_000, onLapsed: "hold" });
  const asked = request();
  const database: typeof remote = {
    ...remote,
    transact: (body, limits) =>
      remote.transact(async (tx, run) => {
        await body(tx, run);
        // The server neither gets COMMIT nor learns that the client is gone.
        proxy.silence();
      }, limits),
  };
  const lost = guard.transaction(asked, database, (tx) =>
    tx.query("INSERT INTO ledger VALUES ($1)", [asked.key]).then(() => "paid"),
  );
  await expect(lost).rejects.toMatchObject({ code: "unknown" });
  // The server ends the idle transaction, and only then does the record say what happened.
  await expect.poll(async () => (await guard.read(asked))?.state).toBe("lapsed");
  expect(await ledgerOf(asked)).toBe(0);
});

test("a statement that fails in the work and is ignored makes the whole transaction roll back", async () => {
  const pool = pooled();
  const guard = guardOn(pool);
  const asked = request();
  const ignoring = guard.transaction(asked, pool, async (tx) => {
    await tx.query("INSERT INTO ledger VALUES ($1)", [asked.key]);
    await tx.query("SELECT 1 / 0").catch(() => {});
    return "done";
  });
  await expect(ignoring).rejects.toMatchObject({ code: "25P02" });
  expect(await ledgerOf(asked)).toBe(0);
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
});

test("a constraint that fails at COMMIT rolls back, and the caller gets the database's error", async () => {
  await query(
    url,
    "CREATE TABLE IF NOT EXISTS strict_ledger (key text UNIQUE DEFERRABLE INITIALLY DEFERRED)",
  );
  const pool = pooled();
  const guard = guardOn(pool);
  const asked = request();
  const failing = guard.transaction(asked, pool, async (tx) => {
    await tx.query("INSERT INTO strict_ledger VALUES ('same'), ('same')");
  });
  await expect(failing).rejects.toMatchObject({ code: "23505" });
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
});

test("the outcome of the work is kept by the policy of its failures", async () => {
  const pool = pooled();
  const guard = guardOn(pool, { onFailure: "remember" });
  const asked = request();
  let runs = 0;
  const pay = () =>
    guard.transaction(asked, pool, () => {
      runs++;
      throw new Error("card declined");
    });
  await expect(pay()).rejects.toThrow("card declined");
  await expect(pay()).rejects.toThrow("card declined");
  expect(runs).toBe(1);
});

test("a claim that meets the record's lock after its lease answers pending, and delays no other claim", async () => {
  const pool = pooled();
  const store = postgresStore({ client: pool });
  const elsewhere = postgresStore({ client: pooled() });
  const claim = claimOf(undefined, { leaseMs: 100 });
  await store.claim(claim);
  const { transactions } = store;
  if (transactions?.kind !== "statements") throw new Error("the store has no statements for transactions");
  let lateMs = 0;
  await pgDatabase(pool).transact(
    async (_, run) => {
      const lock = await transactions.lock(run, { ...claim, transactionMs: 10_000 });
      expect(lock.status).toBe("locked");
      const lockAgain = query(
        url,
        `SELECT 1 FROM nevertwice_records WHERE id = '\\x${claim.id}' FOR UPDATE NOWAIT`,
      );
      await expect(lockAgain).rejects.toMatchObject({ code: "55P03" });
      await new Promise((resolve) => setTimeout(resolve, 150));
      const startedAt = performance.now();
      const other = elsewhere.claim(claimOf(claim.parts.key));
      const unrelated = Array.from({ length: 31 }, () => elsewhere.claim(claimOf()));
      expect(await other).toEqual({ status: "pending", leaseLeftMs: 1_000 });
      const answers = await Promise.all(unrelated);
      expect(answers.every(({ status }) => status === "new")).toBe(true);
      lateMs = performance.now() - startedAt;
      const request = { ...completionOf(claim), outcome: "done" };
      expect(
        await transactions.complete({ run, commits: false }, request, (lock as { mark: string }).mark),
      ).toBe("completed");
    },
    { waitMs: 1_000, transactionMs: 10_000 },
  );
  expect(lateMs).toBeLessThan(900);
  expect(await elsewhere.claim(claimOf(claim.parts.key))).toEqual({ status: "completed", outcome: "done" });
});

describe("the wrong database", () => {
  test("runs nothing when the record is not there", async (context) => {
    const other = await createDatabase(sharedUrl(context, "postgres"));
    const pool = pooled(other);
    const guard = guardOn(pooled());
    const asked = request();
    let runs = 0;
    const pay = () => guard.transaction(asked, pool, () => ++runs);
    await expect(pay()).rejects.toMatchObject({
      code: "options-invalid",
      message: expect.stringContaining("does not see the record"),
    });
    await query(other, migrationSql());
    await expect(pay()).rejects.toMatchObject({ code: "options-invalid" });
    expect(runs).toBe(0);
    expect(await guard.run(asked, () => "free")).toBe("free");
  });

  test("is refused for a store whose records are not in a database", async () => {
    const { memoryStore } = await import("../../src/stores/memory.ts");
    const guard = createGuard({ store: memoryStore() });
    await expect(guard.transaction(request(), pooled(), () => 1)).rejects.toMatchObject({
      code: "options-invalid",
    });
  });
});

test("work that commits by itself ends unknown, also if it throws afterwards", async () => {
  const pool = pooled();
  const guard = guardOn(pool, { onLapsed: "hold" });
  for (const isThrowing of [false, true]) {
    const asked = request();
    const leaving = guard.transaction(asked, pool, async (tx) => {
      await tx.query("INSERT INTO ledger VALUES ($1)", [asked.key]);
      await tx.query("COMMIT");
      if (isThrowing) throw new Error("after the commit");
    });
    await expect(leaving).rejects.toMatchObject({ code: "unknown" });
    expect(await ledgerOf(asked)).toBe(1);
    expect(await guard.read(asked)).toMatchObject({ state: "lapsed" });
    await expect(guard.run(asked, () => "again")).rejects.toMatchObject({ code: "unknown" });
  }
});

test("a serialization failure repeats the transaction under the same claim", async () => {
  await query(url, "CREATE TABLE IF NOT EXISTS balance (id int PRIMARY KEY, amount int)");
  await query(url, "INSERT INTO balance VALUES (1, 0) ON CONFLICT DO NOTHING");
  const pool = pooled(url, { options: "-c default_transaction_isolation=serializable" });
  const guard = guardOn(pooled());
  const asked = request();
  let runs = 0;
  await guard.transaction(asked, pool, async (tx, attempt) => {
    runs++;
    expect(attempt.number).toBe(1);
    await tx.query("SELECT amount FROM balance WHERE id = 1");
    if (runs === 1) await query(url, "UPDATE balance SET amount = amount + 1 WHERE id = 1");
    await tx.query("UPDATE balance SET amount = amount + 10 WHERE id = 1");
    await tx.query("INSERT INTO ledger VALUES ($1)", [asked.key]);
  });
  expect(runs).toBe(2);
  expect(await ledgerOf(asked)).toBe(1);
  expect(await query(url, "SELECT amount FROM balance")).toEqual([{ amount: 11 }]);
});

test("a transaction that always conflicts ends with the database's error after five tries", async () => {
  const pool = pooled();
  const guard = guardOn(pool);
  const asked = request();
  let runs = 0;
  const conflicting = guard.transaction(asked, pool, () => {
    runs++;
    throw Object.assign(new Error("could not serialize access"), { code: "40001" });
  });
  await expect(conflicting).rejects.toMatchObject({ code: "40001" });
  expect(runs).toBe(5);
});

test("runs nothing when another attempt has taken the claim over before the transaction began", async () => {
  const pool = pooled();
  const own = pgDatabase(pool);
  const guard = guardOn(pooled());
  const asked = request();
  const database: typeof own = {
    ...own,
    async transact(body, limits) {
      await query(url, `UPDATE nevertwice_records SET token = 'another' WHERE parts LIKE '%${asked.key}%'`);
      return own.transact(body, limits);
    },
  };
  let runs = 0;
  const late = guard.transaction(asked, database, () => ++runs);
  await expect(late).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("lost") });
  expect(runs).toBe(0);
  expect(await guard.read(asked)).toMatchObject({ state: "pending" });
});

test("waits only so long for a connection, runs nothing, and leaves the key free", async () => {
  const pool = pooled(url, { max: 1 });
  const held = await pool.connect();
  const guard = guardOn(pooled(), { storeTimeoutMs: 300 });
  const asked = request();
  let runs = 0;
  await expect(guard.transaction(asked, pool, () => ++runs)).rejects.toMatchObject({ code: "unavailable" });
  expect(await guard.read(asked)).toMatchObject({ state: "released" });
  held.release();
  await until(() => pool.idleCount === 1);
  expect(runs).toBe(0);
});

test("the lease is not renewed, and covers the transaction", async () => {
  const pool = pooled();
  const guard = guardOn(pool, { transactionMs: 2_000, storeTimeoutMs: 1_000, leaseMs: 100 });
  const asked = request();
  await guard.transaction(asked, pool, async (_, attempt) => {
    const before = await guard.read(asked);
    await new Promise((resolve) => setTimeout(resolve, 800));
    expect(await attempt.renew()).toBe(true);
    const after = await guard.read(asked);
    expect(after?.leaseLeftMs).toBeLessThan((before?.leaseLeftMs as number) - 500);
    expect(before?.leaseLeftMs).toBeGreaterThan(3_000);
  });
});

test.each([
  ["a lost connection", { code: "ECONNRESET" }, "ambiguous"],
  ["a server that shuts down", { code: "57P01", severity: "FATAL" }, "ambiguous"],
  ["a completion that the server does not know", { code: "40003" }, "ambiguous"],
  ["a failed constraint", { code: "23505" }, "rolled-back"],
  ["a serialization failure", { code: "40001" }, "repeat"],
  ["a deadlock that a query builder wrapped", { message: "failed", cause: { code: "40P01" } }, "repeat"],
  ["a write conflict of Prisma", { code: "P2034" }, "repeat"],
  ["a transaction that Prisma lost", { code: "P2028" }, "ambiguous"],
  ["anything else", new Error("what?"), "ambiguous"],
])("after COMMIT, %s is judged", (_, error, verdict) => {
  const { transactions } = postgresStore({ client: pooled() });
  expect((transactions as StatementTransactions).judgeFailure(error)).toBe(verdict);
});

test("wrap runs a function in transactions, and takes its key from the arguments after the transaction", async () => {
  const pool = pooled();
  const guard = guardOn(pool);
  const pay = guard.wrap(
    async (tx: pg.PoolClient, order: { readonly key: string; readonly amount: number }) => {
      await tx.query("INSERT INTO ledger VALUES ($1)", [order.key]);
      return order.amount;
    },
    { operation: "pay", key: (order) => order.key, transaction: pool },
  );
  const order = { key: randomUUID(), amount: 5 };
  expect(await Promise.all([pay(order), pay(order)])).toEqual([5, 5]);
  expect(await ledgerOf(order)).toBe(1);
  const options = { operation: "pay", keyFrom: [1], transaction: pool } as never;
  expect(() => guard.wrap(async () => 1, options)).toThrow(/keyFrom cannot be combined/);
});

test("a transaction costs one flush of the log, and two if its claim holds", async (context) => {
  // The background writer would flush by itself, and so would another test on a shared server.
  const settings = { wal_writer_delay: "10s", fsync: "on", autovacuum: "off" };
  const server = await startFor(context, () => startPostgres({ settings }));
  await query(server.url, `${migrationSql()}; CREATE TABLE ledger (key text)`);
  const flushes = async () => {
    const [row] = await query<{ wal_sync: string }>(server.url, "SELECT wal_sync FROM pg_stat_wal");
    return Number(row?.wal_sync);
  };
  const flushesOf = async (kind: string, options: Partial<GuardOptions>) => {
    const before = await flushes();
    const pool = poolOf(server.url);
    const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0, ...options });
    for (let index = 0; index < 20; index++)
      await guard.transaction({ operation: "pay", key: `${kind}-${index}` }, pool, (tx) =>
        tx.query("INSERT INTO ledger VALUES ('x')").then(() => index),
      );
    await guard.close();
    // A connection reports what it counted when it ends.
    await pool.end();
    await new Promise((resolve) => setTimeout(resolve, 500));
    return (await flushes()) - before;
  };
  const brief = await flushesOf("brief", {});
  const held = await flushesOf("held", { onLapsed: "hold" });
  expect(brief).toBeLessThan(30);
  expect(held).toBeGreaterThanOrEqual(40);
});

test("an adapter is recognised by its shape", async () => {
  const pool = pooled();
  const guard = guardOn(pool);
  const asked = request();
  await guard.transaction(asked, pgDatabase(pool), (tx) =>
    tx.query("INSERT INTO ledger VALUES ($1)", [asked.key]).then(() => 1),
  );
  expect(await ledgerOf(asked)).toBe(1);
});
