/** A database of its own on a server, so that files of tests do not disturb each other, and calls to make on it. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { identityOf } from "../../../src/core/identity.ts";
import type { ClaimRequest } from "../../../src/core/store.ts";

/** Creates a database, empty, and answers its URL. */
export async function createDatabase(serverUrl: string): Promise<string> {
  const name = `nevertwice_${randomUUID().slice(0, 8)}`;
  await query(serverUrl, `CREATE DATABASE ${name}`);
  return withPath(serverUrl, name);
}

/** What new connections to the database find set. */
export async function setFor(url: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  for (const [setting, value] of Object.entries(settings))
    await query(url, `ALTER DATABASE ${name} SET ${setting} = '${value}'`);
}

export function withPath(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}

/** As another role. */
export function withUser(serverUrl: string, user: string, password = ""): string {
  const url = new URL(serverUrl);
  url.username = user;
  url.password = password;
  return url.href;
}

/** Asks something by a connection of its own, and answers the rows. */
export async function query<T = Record<string, unknown>>(url: string, text: string): Promise<T[]> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query(text);
    return rows as T[];
  } finally {
    await client.end();
  }
}

/** A pool that a lost connection does not end the process with. */
export function poolOf(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options });
  pool.on("error", () => {});
  return pool;
}

/** A claim of a key by a token of its own. */
export function claimOf(key: string = randomUUID(), more: Partial<ClaimRequest> = {}): ClaimRequest {
  const { id, parts } = identityOf({ namespace: "n", scope: "s", operation: "o", key });
  return { id, parts, token: randomUUID(), leaseMs: 60_000, retentionMs: 3_600_000, hold: false, ...more };
}

export function completionOf({ id, token }: ClaimRequest, outcome = "done") {
  return { id, token, outcome, retentionMs: 3_600_000 };
}

/** Waits for something that is not told. */
export async function until(isSo: () => boolean | Promise<boolean>, withinMs = 5_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error("it did not come about in time");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
