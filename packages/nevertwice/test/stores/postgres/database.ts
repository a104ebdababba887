/** Creates a separate database for each test file, and makes calls on it. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { toIdentity } from "../../../src/core/identity.ts";
import type { ClaimRequest } from "../../../src/core/store.ts";

/** Creates an empty database and returns its URL. */
export async function createDatabase(serverUrl: string): Promise<string> {
  const name = `nevertwice_${randomUUID().slice(0, 8)}`;
  await query(serverUrl, `CREATE DATABASE ${name}`);
  return withPath(serverUrl, name);
}

/** Changes settings for new connections to the database. */
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

/** The same URL with another role. */
export function withUser(serverUrl: string, user: string, password = ""): string {
  const url = new URL(serverUrl);
  url.username = user;
  url.password = password;
  return url.href;
}

/** Runs a query on a separate connection and returns the rows. */
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

/** A pool whose lost connections do not end the process. */
export function poolOf(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options });
  pool.on("error", () => {});
  return pool;
}

/** A claim of a key with a new token. */
export function claimOf(key: string = randomUUID(), more: Partial<ClaimRequest> = {}): ClaimRequest {
  const { id, parts } = toIdentity({ namespace: "n", scope: "s", operation: "o", key });
  return { id, parts, token: randomUUID(), leaseMs: 60_000, retentionMs: 3_600_000, hold: false, ...more };
}

export function completionOf({ id, token }: ClaimRequest, outcome = "done") {
  return { id, token, outcome, retentionMs: 3_600_000 };
}

/** Polls until the condition is true. */
export async function until(isSo: () => boolean | Promise<boolean>, withinMs = 5_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error("it did not come about in time");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
