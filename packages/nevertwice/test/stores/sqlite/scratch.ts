/** A folder for files that are gone after the test, requests to put in them, and a look at what SQLite wrote. */
import { mkdtempSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { afterAll, afterEach } from "vitest";
import { identityOf } from "../../../src/core/identity.ts";
import type { ClaimRequest, CompleteRequest } from "../../../src/core/store.ts";

export const LEASE_MS = 60_000;
export const RETENTION_MS = 3_600_000;

/** Makes a path of a file that is not there yet, in a folder of this test file's own. */
export function scratchFiles(): (name?: string) => string {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-sqlite-"));
  let count = 0;
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return (name = `${++count}.db`) => join(folder, name);
}

type Connect = (file: string) => DatabaseSyncInstance;

/** Connections of the tests' own, closed after the test, on @photostructure/sqlite. */
export function connections(): Connect {
  return closedAfterEach(DatabaseSync);
}

/** On the SQLite that a store on a file uses: two copies of it in one process do not see each other's locks. */
export function connectionsBeside(): Connect {
  const builtIn = process.getBuiltinModule("node:sqlite") as unknown;
  return closedAfterEach(
    (builtIn as { DatabaseSync: typeof DatabaseSync } | undefined)?.DatabaseSync ?? DatabaseSync,
  );
}

function closedAfterEach(Database: typeof DatabaseSync): Connect {
  const open: DatabaseSyncInstance[] = [];
  afterEach(() => {
    for (const database of open.splice(0)) database.close();
  });
  return (file) => {
    const database = new Database(file);
    open.push(database);
    return database;
  };
}

export function claimOf(key: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  const parts = { namespace: "shop", scope: "s", operation: "charge", key };
  return {
    ...identityOf(parts),
    token: `token of ${key}`,
    leaseMs: LEASE_MS,
    retentionMs: RETENTION_MS,
    hold: false,
    ...more,
  };
}

export function completionOf(key: string, outcome = "done"): CompleteRequest {
  const { id, token } = claimOf(key);
  return { id, token, outcome, retentionMs: RETENTION_MS };
}

const WAL_HEADER = 32;
const FRAME_HEADER = 24;

/** How many commits the write-ahead log holds: a frame that ends one says how large the database is after it. */
export async function commitsIn(file: string): Promise<number> {
  const log = await readFile(`${file}-wal`);
  const pageSize = log.readUInt32BE(8);
  let commits = 0;
  for (let at = WAL_HEADER; at < log.length; at += FRAME_HEADER + pageSize)
    if (log.readUInt32BE(at + 4) > 0) commits++;
  return commits;
}
