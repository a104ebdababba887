/**
 * Tests a Galera cluster: what settles a COMMIT without an answer, migrations on several nodes, and nodes that are killed and
 * paused under load. The doctor promises nothing for a failover. Needs the build.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createPool } from "mysql2/promise";
import { expect, type TestContext, test } from "vitest";
import { diagnose } from "../../src/core/doctor.ts";
import type { RunText, StatementTransactions } from "../../src/core/store-transactions.ts";
import { type MysqlClient, mysqlStore } from "../../src/stores/mysql.ts";
import { startGalera } from "../services/galera.ts";
import { startMovingAddress } from "../services/moving-address.ts";
import { installMissing } from "../services/packages.ts";
import type { Server } from "../services/server.ts";
import { startFor } from "../services/services.ts";
import { claimOf, completionOf } from "../stores/postgres/database.ts";
import { expectSafe, type FleetFault, reportFleet, strikeFleet } from "./fleet.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { openSubject } from "./subjects.ts";

await installMissing(["mariadbd", "mariadb-install-db", "rsync"]);

/** How long the writer is gone before calls go to another node. */
const FAULT_MS = 1_500;

function poolOn({ onTestFinished }: TestContext, uri: string) {
  const pool = createPool({ uri });
  onTestFinished(() => pool.end());
  return pool;
}

test("a COMMIT that has not reached its node fails once another node has settled the record", {
  timeout: 300_000,
}, async (context) => {
  const { nodes } = await startFor(context, () => startGalera());
  const [pool, other] = nodes.map(({ url }) => poolOn(context, url)) as [
    ReturnType<typeof poolOn>,
    ReturnType<typeof poolOn>,
  ];
  const stores = [pool, other].map((client) => mysqlStore({ client: client as unknown as MysqlClient }));
  const [here, there] = stores as [(typeof stores)[number], (typeof stores)[number]];
  // GET_LOCK is local to a node.
  await Promise.all(stores.map((store) => store.migrate()));

  const request = claimOf(randomUUID());
  expect(await here.claim(request)).toMatchObject({ status: "new" });
  const connection = await pool.getConnection();
  const run: RunText = async (statement) => {
    const sql = typeof statement === "string" ? statement : statement.toText();
    const [rows] = await connection.query({ sql, rowsAsArray: true });
    return Array.isArray(rows) ? ((rows as unknown[][])[0]?.[0] as string | undefined) : undefined;
  };
  const onHere = here.transactions as StatementTransactions;
  await connection.query("BEGIN");
  const locked = await onHere.lock(run, { ...request, transactionMs: 30_000 });
  expect(locked.status).toBe("locked");
  await onHere.complete({ run } as never, completionOf(request), "savepoint");
  // The caller got no answer to COMMIT and asks another node. The lock is not seen there.
  const onThere = there.transactions as StatementTransactions;
  expect(await onThere.settle({ id: request.id, token: request.token, waitMs: 10_000 })).toBe("pending");
  await expect(connection.query("COMMIT")).rejects.toMatchObject({ errno: 1213 });
  connection.destroy();
  expect(await there.read(request.id)).toMatchObject({ state: "pending" });
});

/** Every call goes to one node, and to the next one when that fails. */
async function startOneWriter(context: TestContext) {
  const cluster = await startFor(context, () => startGalera());
  let writer = 0;
  const address = await startFor(context, () => startMovingAddress(cluster.nodes[0]?.port ?? 0));
  const moveOn = () => {
    writer = (writer + 1) % cluster.nodes.length;
    address.moveTo(cluster.nodes[writer]?.port ?? 0);
  };
  const onWriter = (
    name: string,
    begin: (node: Server) => unknown,
    end: (node: Server) => unknown,
  ): FleetFault => ({
    name,
    async strike() {
      const node = cluster.nodes[writer] as Server;
      await begin(node);
      await sleep(FAULT_MS);
      moveOn();
      await sleep(FAULT_MS);
      return () => end(node);
    },
  });
  const url = Object.assign(new URL(cluster.nodes[0]?.url ?? ""), { port: String(address.port) }).href;
  return {
    cluster,
    url,
    faults: [
      onWriter(
        "writer killed with SIGKILL",
        (node) => node.kill(),
        (node) => node.restart(),
      ),
      onWriter(
        "calls moved to another node",
        () => {},
        () => {},
      ),
      onWriter(
        "writer paused with SIGSTOP",
        (node) => node.pause(),
        (node) => node.resume(),
      ),
    ],
  };
}

test.for(IS_FULL ? ["one writer", "a writer on each node"] : [])(
  "Galera with %s keeps what it acknowledged, in these trials",
  async (writers, context) => {
    const { processes, lanes, pauseMs, galeraFaults: rounds } = sizeOf("fleet");
    const { cluster, url, faults } = await startOneWriter(context);
    const store = await openSubject(context, url);
    expect((await diagnose(store)).survives.failover.survives).toBe("no");
    const urls = writers === "one writer" ? [url] : cluster.nodes.map((node) => node.url);
    const trial = await strikeFleet(context, {
      ...{ urls, processes, lanes, pauseMs, rounds, faults },
      store,
      ready: () => cluster.untilSynced(cluster.nodes.length),
    });
    reportFleet(`MariaDB 10.11 with Galera, three nodes, ${writers}, wsrep_sync_wait 7`, trial, processes);
    expectSafe(trial, rounds);
  },
);
