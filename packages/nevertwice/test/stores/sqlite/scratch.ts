/** Temporary SQLite files, connections and requests for the tests, and a way to count commits. */
import { mkdtempSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { afterAll, afterEach } from "vitest";
import { toIdentity } from "../../../src/core/identity.ts";
import type { ClaimRequest, CompleteRequest } from "../../../src/core/store.ts";

export const LEASE_MS = 60_000;
export const RETENTION_MS = 3_600_000;

/** Returns a function that makes paths of new files, in a temporary folder of this test file. */
export function scratchFiles(): (name?: string) => string {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-sqlite-"));
  let count = 0;
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return (name = `${++count}.db`) => join(folder, name);
}

type Connect = (file: string) => DatabaseSyncInstance;

/** Opens connections with @photostructure/sqlite, and closes them after the test. */
export function connections(): Connect {
  return closedAfterEach(DatabaseSync);
}

/** Opens them with the SQLite that a file store uses: two copies in one process do not see each other's locks. */
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
    ...toIdentity(parts),
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

/** How many commits the write-ahead log contains. The last frame of a commit has the size of the database in its header. */
export async function commitsIn(file: string): Promise<number> {
  const log = await readFile(`${file}-wal`);
  const pageSize = log.readUInt32BE(8);
  let commits = 0;
  for (let at = WAL_HEADER; at < log.length; at += FRAME_HEADER + pageSize)
    if (log.readUInt32BE(at + 4) > 0) commits++;
  return commits;
}
