/** The stores of the long trial, each on servers of its own: who reads for long, what fails, and what the records take. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { TestContext } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { startPostgres } from "../services/postgres.ts";
import { startFor } from "../services/services.ts";
import { query } from "../stores/postgres/database.ts";
import type { EnduredStore } from "./endurance.ts";
import { startEnduredCluster } from "./endurance-cluster.ts";
import { startProcess } from "./processes.ts";
import { restart } from "./restarting.ts";

export interface EnduranceSubject {
  readonly name: string;
  create(context: TestContext): Promise<EnduredStore>;
}

const POSTGRES_SIZE = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::text AS bytes FROM pg_class
  WHERE relkind = 'r' AND relname LIKE 'nevertwice%'`;

async function startEnduredPostgres(context: TestContext): Promise<EnduredStore> {
  const server = await startFor(context, () => startPostgres());
  const { url } = server;
  return {
    url,
    async readForLong() {
      const client = new pg.Client(url);
      await client.connect();
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await client.query("SELECT count(*) FROM nevertwice_records");
      return async () => {
        await client.query("COMMIT");
        await client.end();
      };
    },
    faults: [
      {
        name: "Postgres is killed with SIGKILL and started again",
        async strike() {
          await server.kill();
          await restart(server);
        },
      },
    ],
    size: async () => Number((await query<{ bytes: string }>(url, POSTGRES_SIZE))[0]?.bytes),
  };
}

async function startEnduredSqlite(context: TestContext): Promise<EnduredStore> {
  const file = join(await scratchFolder(context), "records.db");
  const bytes = async (path: string) => (await stat(path).catch(() => undefined))?.size ?? 0;
  return {
    url: `sqlite:${file}`,
    async readForLong() {
      const reader = startProcess(context, "sqlite-reader.js", { file });
      await reader.next("ready");
      return async () => {
        reader.signal("SIGKILL");
        await reader.ended;
      };
    },
    faults: [
      {
        name: "a process is killed with SIGKILL and replaced",
        strike: (processes) => processes.replaceOne(),
      },
    ],
    size: async () => (await bytes(file)) + (await bytes(`${file}-wal`)),
  };
}

export const ENDURANCE_SUBJECTS: readonly EnduranceSubject[] = [
  { name: "Postgres", create: startEnduredPostgres },
  { name: "Redis Cluster", create: startEnduredCluster },
  { name: "SQLite", create: startEnduredSqlite },
];
