/** Tests a server that is another one after a reconnect or no longer the primary, and commits that wait for a standby. */
import pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { migrationSql, postgresStore } from "../../src/stores/postgres.ts";
import { startMovingAddress } from "../services/moving-address.ts";
import { startPostgres } from "../services/postgres.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { claimOf, createDatabase, poolOf, query, setFor, until } from "./postgres/database.ts";
import { startStandby } from "./postgres/standby.ts";

async function migrated(context: TestContext): Promise<string> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, migrationSql());
  return url;
}

function pooled(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = poolOf(url, options);
  onTestFinished(() => pool.end());
  return pool;
}

const OTHERS = "datname = current_database() AND pid <> pg_backend_pid()";
const disconnect = (url: string) =>
  query(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OTHERS}`);

describe("after a reconnect", () => {
  const RECONNECTS: Readonly<Record<string, (url: string, pool: pg.Pool) => Promise<unknown>>> = {
    "that cut idle connections": async (url, pool) => {
      await disconnect(url);
      await until(() => pool.totalCount === 0);
    },
    "of a pool that had closed its idle connections": async (_url, pool) => {
      await until(() => pool.totalCount === 0);
    },
  };
  for (const [name, reconnect] of Object.entries(RECONNECTS)) {
    test(`${name} a guard checks again whether the store survives the required fault`, async (context) => {
      const url = await migrated(context);
      const pool = pooled(url, { idleTimeoutMillis: name.includes("idle connections") ? 300 : 0 });
      const guard = createGuard({
        store: postgresStore({ client: pool }),
        require: "store-crash",
        purgeEveryMs: 0,
      });
      onTestFinished(() => guard.close().then(() => {}));
      const run = (key: string) => guard.run({ operation: "order", key }, async () => "done");
      expect(await run("before")).toBe("done");
      await setFor(url, { synchronous_commit: "off" });
      await reconnect(url, pool);
      await expect(run("after")).rejects.toMatchObject({
        code: "store-unsafe",
        message: expect.stringContaining("synchronous_commit off"),
      });
      await setFor(url, { synchronous_commit: "on" });
      await disconnect(url);
      await until(
        async () => (await guard.tryRun({ operation: "order", key: "last" }, async () => 1)).status === "ran",
      );
    });
  }

  test("to tables of a newer version, the store refuses every step", async (context) => {
    const url = await migrated(context);
    const pool = pooled(url);
    const store = postgresStore({ client: pool });
    await store.claim(claimOf());
    await query(url, "INSERT INTO nevertwice_migrations (version) VALUES (99)");
    await disconnect(url);
    await until(() => pool.totalCount === 0);
    await expect(store.claim(claimOf())).rejects.toMatchObject({
      code: "store-unsafe",
      message: expect.stringContaining("upgrade nevertwice"),
    });
  });
});

test("a primary that becomes read-only while connections are open refuses every step, including reads", {
  timeout: 60_000,
}, async (context) => {
  const server = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
  await query(server.url, migrationSql());
  const store = postgresStore({ client: pooled(server.url) });
  const claim = claimOf();
  await store.claim(claim);
  await query(server.url, "ALTER SYSTEM SET default_transaction_read_only = on");
  await query(server.url, "SELECT pg_reload_conf()");
  await until(async () => {
    const [row] = await query<{ is: string }>(
      server.url,
      "SELECT current_setting('transaction_read_only') AS is",
    );
    return row?.is === "on";
  });
  const { id, token } = claim;
  const steps = [
    () => store.read(id),
    () => store.list?.({ namespace: "n", limit: 5 }),
    () => store.claim(claimOf(claim.parts.key)),
    () => store.renew({ id, token, leaseMs: 1_000 }),
    () => store.complete({ id, token, outcome: "done", retentionMs: 1_000 }),
    () => store.purge(5),
  ];
  for (const step of steps) await expect(step()).rejects.toMatchObject({ code: "unavailable" });
});

test("a pool whose address led to a replica for a moment reaches the primary again", {
  timeout: 120_000,
}, async (context) => {
  const primary = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
  await query(primary.url, migrationSql());
  const standby = await startFor(context, () => startStandby(primary));
  const address = await startFor(context, () => startMovingAddress(primary.port));
  const url = Object.assign(new URL(primary.url), { port: String(address.port) }).href;
  const pool = pooled(url, { max: 2 });
  const store = postgresStore({ client: pool });
  await store.claim(claimOf());
  address.moveTo(standby.port);
  await until(async () => {
    const refusal = await store.claim(claimOf()).catch((error) => error);
    expect(refusal).toMatchObject({ code: "unavailable" });
    return /replica/.test(refusal.message);
  });
  // The connections to the replica stay open, and the pool would use them for ever.
  address.moveTo(primary.port, { keepsOpen: true });
  expect(await store.claim(claimOf())).toMatchObject({ status: "new" });
});

describe("a commit that waits for its synchronous standby", () => {
  const waitingForStandby =
    "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()";

  async function standbys(url: string, names: string): Promise<void> {
    await query(url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await query(url, "SELECT pg_reload_conf()");
    await until(async () => {
      const [row] = await query<{ names: string }>(
        url,
        "SELECT current_setting('synchronous_standby_names') AS names",
      );
      return row?.names === names;
    });
  }

  const CLIENTS = {
    pg(url: string) {
      let looks = -1;
      class Counted extends pg.Client {
        constructor(config?: pg.ClientConfig) {
          super(config);
          looks++;
        }
      }
      const client = pooled(url, { Client: Counted, max: 1 } as pg.PoolConfig);
      return { client, hasTried: () => looks >= 2 };
    },
    "postgres.js"(url: string) {
      const client = postgres(url, { max: 1, onnotice: () => {} });
      onTestFinished(() => client.end({ timeout: 1 }));
      return { client, hasTried: () => true };
    },
  };

  const SETTLEMENTS: Readonly<
    Record<string, (store: Store, owner: { id: string; token: string }) => Promise<boolean>>
  > = {
    "a completion": (store, owner) => store.complete({ ...owner, outcome: "done", retentionMs: 60_000 }),
    "a release": (store, owner) => store.abandon({ ...owner, as: "released" }),
    "an unknown end": (store, owner) => store.abandon({ ...owner, as: "unknown" }),
  };

  for (const [name, settle] of Object.entries(SETTLEMENTS)) {
    test(`is interrupted: ${name} is acknowledged only by a repeat whose commit a standby has`, {
      timeout: 60_000,
    }, async (context) => {
      const { url } = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
      await query(url, migrationSql());
      const store = postgresStore({ client: pooled(url) });
      const claim = claimOf();
      await store.claim(claim);
      await standbys(url, "nobody");
      let isAcknowledged = false;
      async function settleUntilAnswered(): Promise<boolean> {
        for (;;) {
          const answer = await settle(store, claim).catch(() => undefined);
          if (answer === undefined) continue;
          isAcknowledged = true;
          return answer;
        }
      }
      const acknowledged = settleUntilAnswered();
      const waiting = () => query<{ pid: number }>(url, waitingForStandby);
      await until(async () => (await waiting()).length === 1);
      const [first] = await waiting();
      await query(url, `SELECT pg_terminate_backend(${first?.pid})`);
      await until(async () => isAcknowledged || (await waiting()).some(({ pid }) => pid !== first?.pid));
      expect(isAcknowledged).toBe(false);
      await standbys(url, "");
      expect(await acknowledged).toBe(true);
    });
  }

  for (const [name, clientOf] of Object.entries(CLIENTS)) {
    test(`is not cancelled when its caller gives up, so no session sees data that no standby has (${name})`, {
      timeout: 60_000,
    }, async (context) => {
      const server = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
      const { url } = server;
      await query(url, migrationSql());
      const { client, hasTried } = clientOf(url);
      const store = postgresStore({ client });
      const other = postgresStore({ client: pooled(url) });
      // This driver cancels without checking, so the store must know about standbys beforehand.
      if (name === "postgres.js") await standbys(url, "nobody");
      await store.read("x");
      await standbys(url, "nobody");
      const giveUp = new AbortController();
      const claim = claimOf();
      const claimed = store.claim({ ...claim, signal: giveUp.signal });
      await until(async () => (await query(url, waitingForStandby)).length === 1);
      giveUp.abort();
      await until(hasTried);
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(await query(url, waitingForStandby)).toHaveLength(1);
      expect(await other.read(claim.id)).toBe(undefined);
      // The late answer is still received, so that the guard can give the claim back.
      await standbys(url, "");
      expect(await claimed).toMatchObject({ status: "new" });
      expect(await other.read(claim.id)).toMatchObject({ state: "pending" });
    });
  }
});
