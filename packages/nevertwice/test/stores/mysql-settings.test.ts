/** Tests what the doctor reports about a MySQL or MariaDB server. */
import { expect, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import { createGuard } from "../../src/index.ts";
import { judgeDurability } from "../../src/stores/mysql/durability.ts";
import { mysqlStore } from "../../src/stores/mysql.ts";
import { startMariadb } from "../services/mariadb.ts";
import { startFor } from "../services/services.ts";
import { poolOn } from "./mysql/pools.ts";

test("the doctor reads the settings of a live server as they change", async (context) => {
  const server = await startFor(context, () => startMariadb());
  const pool = poolOn(context, server.url);
  const store = mysqlStore({ client: pool });
  await store.migrate();
  const { rung, title, refused } = await diagnose(store);
  expect({ rung, refused }).toEqual({ rung: "power-loss", refused: undefined });
  expect(title).toMatch(/^MariaDB \d+\.\d+\.\d+, innodb_flush_log_at_trx_commit = 1$/);
  await pool.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
  expect((await diagnose(store)).rung).toBe("store-crash");
  await pool.query("SET GLOBAL innodb_flush_log_at_trx_commit = 0");
  expect((await diagnose(store)).rung).toBe("our-crash");
  // The columns of these indexes are too long for the other engine.
  const indexes = ["nevertwice_claims", "nevertwice_scopes", "nevertwice_keys"].map(
    (name) => `DROP INDEX ${name}`,
  );
  await pool.query(`ALTER TABLE nevertwice_records ${indexes.join(", ")}, ENGINE = MyISAM`);
  expect((await diagnose(store)).refused).toContain("ENGINE = InnoDB");
});

test("a guard checks its requirements again when its connections are new", {
  timeout: 120_000,
}, async (context) => {
  const server = await startFor(context, () => startMariadb());
  const pool = poolOn(context, server.url);
  const store = mysqlStore({ client: pool });
  await store.migrate();
  const guard = createGuard({ store, namespace: "n", require: "power-loss" });
  expect(await guard.run({ operation: "o", key: "a" }, () => "done")).toBe("done");
  await poolOn(context, server.url).query("SET GLOBAL innodb_flush_log_at_trx_commit = 0");
  // Like a failover: the next call needs a new connection.
  const connections = await Promise.all(Array.from({ length: 10 }, () => pool.getConnection()));
  for (const connection of connections) connection.destroy();
  await expect(guard.run({ operation: "o", key: "b" }, () => "done")).rejects.toMatchObject({
    code: "store-unsafe",
    message: expect.stringContaining("innodb_flush_log_at_trx_commit = 0"),
  });
  await guard.close();
});

const INNODB = [{ name: "nevertwice_records", engine: "InnoDB" }];

const SAFE = {
  version: "8.4.3",
  innodb_flush_log_at_trx_commit: "1",
  innodb_doublewrite: "ON",
  log_bin: "ON",
  sync_binlog: "1",
  binlog_format: "ROW",
  read_only: "OFF",
};

test("a server that flushes every commit survives power loss, and no server survives failover", () => {
  const { title, survives, refused, notes } = judgeDurability(SAFE, INNODB);
  expect(title).toBe("MySQL 8.4.3, innodb_flush_log_at_trx_commit = 1");
  expect(Object.values(survives).map((finding) => finding.survives)).toEqual(["yes", "yes", "yes", "no"]);
  expect(refused).toBeUndefined();
  expect(notes.join()).not.toContain("STATEMENT");
});

test("each setting that loses commits is named, with what to set", () => {
  const powerLoss = (change: object) =>
    judgeDurability({ ...SAFE, ...change }, INNODB).survives["power-loss"];
  expect(powerLoss({ innodb_flush_log_at_trx_commit: "3" }).survives).toBe("yes");
  expect(powerLoss({ innodb_doublewrite: "OFF" })).toMatchObject({
    survives: "no",
    raise: "set innodb_doublewrite = ON",
  });
  expect(powerLoss({ sync_binlog: "0" })).toMatchObject({ survives: "no", raise: "set sync_binlog = 1" });
  expect(powerLoss({ sync_binlog: "0", log_bin: "OFF" }).survives).toBe("yes");
  expect(powerLoss({ innodb_flush_log_at_trx_commit: "2" })).toMatchObject({
    survives: "no",
    raise: "set innodb_flush_log_at_trx_commit = 1",
  });
});

test("on Galera, names what makes a loss rarer, and refuses a node that would go on alone", () => {
  const galera = (more: Readonly<Record<string, string>>) =>
    judgeDurability(
      { ...SAFE, wsrep_on: "ON", wsrep_cluster_size: "3", wsrep_sync_wait: "7", ...more },
      INNODB,
    );
  expect(galera({}).refused).toBeUndefined();
  expect(galera({}).survives.failover.raise).toBeUndefined();
  expect(galera({}).notes).toContainEqual(expect.stringContaining("send every call to one node"));
  expect(galera({ wsrep_cluster_size: "2" }).survives.failover.raise).toContain("three nodes or more");
  expect(galera({ wsrep_sync_wait: "0" }).survives.failover.raise).toContain("wsrep_sync_wait = 7");
  const provider = (options: string) => galera({ wsrep_provider_options: `a = 1; ${options}; b = no` });
  expect(provider("pc.ignore_quorum = false; pc.ignore_sb = false").refused).toBeUndefined();
  expect(provider("pc.ignore_quorum = true").refused).toContain("pc.ignore_quorum = true");
  expect(provider("pc.ignore_sb = 1").refused).toContain("pc.ignore_sb = 1");
  expect(galera({ wsrep_dirty_reads: "ON" }).refused).toContain("wsrep_dirty_reads");
});

test("reports that Galera loses commits, and that statement replication computes other deadlines", () => {
  expect(judgeDurability({ ...SAFE, wsrep_on: "ON" }, INNODB).survives.failover).toMatchObject({
    survives: "no",
    because: expect.stringContaining("Galera"),
  });
  expect(judgeDurability({ ...SAFE, binlog_format: "STATEMENT" }, INNODB).notes.join()).toContain(
    "STATEMENT",
  );
});
