/** Tests the MySQL store when the server dies after a commit became visible and before its log was flushed. */
import { mkdtempSync, rmSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import type { ActionRequest } from "../../src/reservations/action-request.ts";
import { type MysqlReservations, mysqlReservations } from "../../src/reservations/mysql.ts";
import type { MysqlRow } from "../../src/stores/mysql/client.ts";
import { createFlushedReads } from "../../src/stores/mysql/flushed-reads.ts";
import { statementRunnerFor } from "../../src/stores/mysql/statement-runner.ts";
import { toRecord } from "../../src/stores/mysql/values.ts";
import { type MysqlStore, mysqlStore } from "../../src/stores/mysql.ts";
import { readSql } from "../../src/stores/mysql-sql.ts";
import { createLogGate, type LogGate } from "../services/log-gate.ts";
import { startMariadb } from "../services/mariadb.ts";
import { startProxy } from "../services/proxy.ts";
import type { Server, Settings } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { claimOf } from "./claim-request.ts";
import { newStore, poolOn } from "./mysql/pools.ts";
import { RULES, toHold } from "./reservation-requests.ts";

interface Scene {
  readonly server: Server;
  readonly gate: LogGate;
  storeOn(): MysqlStore;
}

/** These tests start and restart their own servers. */
const SLOW = { timeout: 180_000 };
const GATE_MS = 150_000;

async function withGate(
  context: TestContext,
  settings: Settings,
  play: (scene: Scene) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-log-gate-"));
  context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const gate = await createLogGate(folder);
  const server = await startFor(context, () => startMariadb({ settings, env: gate.env, onDisk: true }));
  const storeOn = () => mysqlStore({ client: poolOn(context, server.url) });
  // A server that cannot write its log cannot be stopped, and does not answer a client that disconnects. So the gate opens
  // even if `play` would wait until the test has run out of time.
  const opening = setTimeout(() => gate.open(), GATE_MS);
  try {
    await play({ server, gate, storeOn });
  } finally {
    clearTimeout(opening);
    gate.open();
  }
}

/** Whether a plain SELECT, without the store, sees the outcome. */
async function seesOutcome(context: TestContext, url: string): Promise<boolean> {
  const [rows] = await poolOn(context, url).query("SELECT outcome FROM nevertwice_records");
  return (rows as { outcome: unknown }[]).some(({ outcome }) => outcome !== null);
}

const CALLS: Readonly<Record<string, (store: Store, id: string, token: string) => Promise<unknown>>> = {
  "a claim with another token": (store) => store.claim(claimOf("a")),
  "a read": (store, id) => store.read(id),
  "a list": (store) => Promise.resolve(store.list?.({ namespace: "n", limit: 5 })),
  "the owner's second completion": (store, id, token) =>
    store.complete({ id, token, outcome: "done", retentionMs: 60_000 }),
};

for (const flush of [1, 2]) {
  for (const [name, ask] of Object.entries(CALLS)) {
    test(
      `shown-too-early: ${name} returns no outcome that a killed server loses (innodb_flush_log_at_trx_commit = ${flush})`,
      SLOW,
      async (context) => {
        const settings = { "innodb-flush-log-at-trx-commit": flush };
        await withGate(context, settings, async ({ server, gate, storeOn }) => {
          const [owner, other] = [storeOn(), storeOn()];
          await owner.migrate();
          const { id, token } = claimOf("a");
          await owner.claim(claimOf("a", { id, token }));
          await other.read("warm");
          gate.shut();
          const completed = owner.complete({ id, token, outcome: "done", retentionMs: 60_000 });
          const completedEnd = completed.catch(() => {});
          await expect.poll(() => seesOutcome(context, server.url), { timeout: 60_000 }).toBe(true);
          let returned: unknown;
          const asked = ask(other, id, token).then(
            (answer) => {
              returned = answer;
            },
            () => {},
          );
          // The call has to wait, because the outcome is only in the server's memory.
          const held = await Promise.race([asked.then(() => false), isWaiting(context, server.url)]);
          expect(returned).toBeUndefined();
          expect(held).toBe(true);
          await server.kill();
          gate.open();
          await Promise.all([asked, completedEnd]);
          expect(returned).toBeUndefined();
          await server.restart();
          expect((await storeOn().read(id))?.state).toBe("pending");
        });
      },
    );
  }
}

const HOLD_READS: Readonly<
  Record<string, (store: MysqlReservations, hold: ActionRequest) => Promise<unknown>>
> = {
  "a repeated action": (store, hold) => store.transact([{ ...hold, newId: "another" }], RULES),
  "a read of the hold": (store, { newId }) => store.get("n", newId),
};

for (const [name, ask] of Object.entries(HOLD_READS)) {
  test(`shown-too-early: ${name} returns no hold that a killed server loses`, SLOW, async (context) => {
    await withGate(context, {}, async ({ server, gate }) => {
      const storeOn = () => mysqlReservations({ client: poolOn(context, server.url) });
      const [owner, other] = [storeOn(), storeOn()];
      await owner.migrate();
      await other.now();
      const beside = poolOn(context, server.url);
      const rows = async (text: string) => ((await beside.query(text))[0] as unknown[]).length;
      gate.shut();
      const hold = toHold("room");
      const placed = owner.transact([hold], RULES).catch(() => {});
      await expect.poll(() => rows("SELECT id FROM nevertwice_commitments"), { timeout: 60_000 }).toBe(1);
      let told: unknown;
      const asked = ask(other, hold).then(
        (answer) => {
          told = answer;
        },
        () => {},
      );
      const commits = () => rows("SELECT id FROM information_schema.processlist WHERE info = 'COMMIT'");
      await Promise.race([asked, expect.poll(commits, { timeout: 9_000 }).toBe(2)]);
      expect(told).toBeUndefined();
      await server.kill();
      gate.open();
      await Promise.all([asked, placed]);
      expect(told).toBeUndefined();
      await server.restart();
      expect(await storeOn().get("n", hold.newId)).toMatchObject({ commitment: undefined });
    });
  });
}

/** Waits until two commits wait for the log: the completion, and the commit of the call that read its outcome. */
async function isWaiting(context: TestContext, url: string): Promise<boolean> {
  const pool = poolOn(context, url);
  const waiting = async () => {
    const [rows] = await pool.query(
      "SELECT info FROM information_schema.processlist WHERE info LIKE 'UPDATE nevertwice_records%'",
    );
    return (rows as unknown[]).length;
  };
  await expect.poll(waiting, { timeout: 60_000 }).toBe(2);
  return true;
}

test("an outcome is returned once the log is written", SLOW, async (context) => {
  await withGate(context, {}, async ({ server, gate, storeOn }) => {
    const [owner, other] = [storeOn(), storeOn()];
    await owner.migrate();
    const { id, token } = claimOf("a");
    await owner.claim(claimOf("a", { id, token }));
    gate.shut();
    const completed = owner.complete({ id, token, outcome: "done", retentionMs: 60_000 });
    await expect.poll(() => seesOutcome(context, server.url), { timeout: 60_000 }).toBe(true);
    const asked = other.claim(claimOf("a"));
    await isWaiting(context, server.url);
    gate.open();
    expect(await completed).toBe(true);
    expect(await asked).toEqual({ status: "completed", outcome: "done" });
  });
});

test("with a binary log flushed at every commit, a replay writes nothing", SLOW, async (context) => {
  const settings = { "log-bin": "bin", "server-id": 1, "sync-binlog": 1, "binlog-format": "ROW" };
  await withGate(context, settings, async ({ server, gate, storeOn }) => {
    const owner = storeOn();
    await owner.migrate();
    const { id, token } = claimOf("a");
    await owner.claim(claimOf("a", { id, token }));
    gate.shut();
    const completed = owner.complete({ id, token, outcome: "done", retentionMs: 60_000 });
    const isUnderWay = async () => {
      const [rows] = await poolOn(context, server.url).query(
        "SELECT info FROM information_schema.processlist WHERE info LIKE 'UPDATE nevertwice_records%'",
      );
      return (rows as unknown[]).length;
    };
    await expect.poll(isUnderWay, { timeout: 60_000 }).toBe(1);
    expect(await seesOutcome(context, server.url)).toBe(false);
    gate.open();
    expect(await completed).toBe(true);
    expect(await trips(context, server.url, id)).toEqual([1, 1]);
  });
});

test("a replay of an old outcome needs no commit once this process has made one", SLOW, async (context) => {
  const { url, pool, store } = await newStore(context);
  const { id, token } = claimOf("a");
  await store.claim(claimOf("a", { id, token }));
  await store.complete({ id, token, outcome: "done", retentionMs: 3_600_000 });
  expect(await trips(context, url, id)).toEqual([2, 2]);
  const hour = 3_600_000_000;
  await pool.query(
    `UPDATE nevertwice_records SET claimed_at = claimed_at - ${hour}, lease_ends_at = lease_ends_at - ${hour}, completed_at = completed_at - ${hour}`,
  );
  expect(await trips(context, url, id)).toEqual([2, 1]);
});

test("a clock that went back makes no new outcome look flushed", SLOW, async (context) => {
  const { pool, store } = await newStore(context);
  const { id, token } = claimOf("a");
  await store.claim(claimOf("a", { id, token }));
  await store.complete({ id, token, outcome: "done", retentionMs: 3_600_000 });
  const flushedReads = createFlushedReads(statementRunnerFor(pool));
  const leaseEnd = async () =>
    ((await pool.query("SELECT lease_ends_at AS at FROM nevertwice_records"))[0] as { at: number }[])[0]?.at;
  const record = toRecord((await statementRunnerFor(pool).rows(readSql(id)))[0] as MysqlRow);
  const now = record.completedAt as number;
  // The last flush that this process knows of is an hour ahead of the server's clock.
  flushedReads.markFlushed(now + 3_600_000);
  const before = await leaseEnd();
  expect(await flushedReads.waitUntilFlushed({ record, now }, undefined)).toBe(true);
  expect(await leaseEnd()).toBe(Number(before) + 1);
});

/** How many statements the first and the second read of a new store take. */
async function trips(context: TestContext, url: string, id: string): Promise<number[]> {
  const proxy = await startFor(context, () => startProxy(url));
  const store = mysqlStore({ client: poolOn(context, proxy.url, { connectionLimit: 1 }) });
  await store.read("warm");
  const counter = proxy.countRequests("mysql");
  const taken: number[] = [];
  for (let i = 0; i < 2; i++) {
    const before = counter.count;
    await store.read(id);
    taken.push(counter.count - before);
  }
  return taken;
}
