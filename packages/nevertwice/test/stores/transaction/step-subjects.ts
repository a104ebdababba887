/** Databases for the tests of steps in transactions: each runs a step that first writes its key to the table `ledger`. */
import { DatabaseSync } from "@photostructure/sqlite";
import postgres from "postgres";
import { onTestFinished, type TestContext } from "vitest";
import type { Store } from "../../../src/core/store.ts";
import { type Attempt, createGuard, type Guard, type GuardOptions } from "../../../src/index.ts";
import { postgresStore } from "../../../src/stores/postgres.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import { poolOn } from "../mysql/pools.ts";
import { poolOf, query } from "../postgres/database.ts";
import { emptyMysql, emptyPostgres } from "./scene.ts";

/** Runs a statement in the transaction of the step. */
type RunInside = (text: string) => unknown;

/** Runs a step whose transaction writes to the ledger, and then does `rest`. */
export type LedgerStep = <T>(attempt: Attempt, name: string, rest?: (run: RunInside) => T) => Promise<T>;

export interface StepSubject {
  readonly store: Store;
  guard(options?: Partial<GuardOptions>): Guard;
  readonly step: LedgerStep;
  rows(): Promise<number>;
  /** The steps of all records as the store keeps them. */
  keptText(): Promise<string>;
  /** Gives every record to another token. */
  takeOver(): Promise<unknown>;
}

export interface ServerSubject extends StepSubject {
  readonly url: string;
  /** The same step through another address of the server, such as a proxy. */
  stepThrough(url: string): LedgerStep;
}

const INSERT = "INSERT INTO ledger VALUES ('paid')";
const COUNT = "SELECT count(*) AS count FROM ledger";
const TEXT = "SELECT steps AS text FROM nevertwice_records WHERE steps IS NOT NULL";
const TAKE_OVER = "UPDATE nevertwice_records SET token = 'another'";

function guardsOn(store: Store): StepSubject["guard"] {
  return (options = {}) => {
    const guard = createGuard({ store, purgeEveryMs: 0, ...options });
    onTestFinished(async () => void (await guard.close()));
    return guard;
  };
}

const nothing = (): never => undefined as never;

async function onPostgres(
  context: TestContext,
  stepThrough: (url: string) => LedgerStep,
): Promise<ServerSubject> {
  const url = await emptyPostgres(context);
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool });
  return {
    url,
    store,
    guard: guardsOn(store),
    stepThrough,
    step: stepThrough(url),
    rows: async () => Number((await query(url, COUNT))[0]?.count),
    keptText: async () => (await query(url, TEXT)).map(({ text }) => String(text)).join(),
    takeOver: () => query(url, TAKE_OVER),
  };
}

function pgStep(url: string): LedgerStep {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return (attempt, name, rest = nothing) =>
    attempt.step(name, pool, async (tx) => {
      await tx.query(INSERT);
      return rest((text) => tx.query(text));
    });
}

function postgresJsStep(url: string): LedgerStep {
  const sql = postgres(url, { max: 4, onnotice: () => {} });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return (attempt, name, rest = nothing) =>
    attempt.step(name, sql, async (tx) => {
      await tx.unsafe(INSERT);
      return rest((text) => tx.unsafe(text));
    });
}

async function onMariadb(context: TestContext): Promise<ServerSubject> {
  const { url, pool, store } = await emptyMysql(context);
  const rows = async (text: string) => (await pool.query(text))[0] as Record<string, unknown>[];
  const stepThrough = (to: string): LedgerStep => {
    const remote = poolOn(context, to);
    return (attempt, name, rest = nothing) =>
      attempt.step(name, remote, async (tx) => {
        await tx.query(INSERT);
        return rest((text) => tx.query(text));
      });
  };
  return {
    url,
    store,
    guard: guardsOn(store),
    stepThrough,
    step: stepThrough(url),
    rows: async () => Number((await rows(COUNT))[0]?.count),
    keptText: async () => (await rows(TEXT)).map(({ text }) => String(text)).join(),
    takeOver: () => pool.query(TAKE_OVER),
  };
}

async function onSqlite(): Promise<StepSubject> {
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  database.exec("CREATE TABLE ledger (key TEXT NOT NULL)");
  const store = sqliteStore({ database });
  const all = (text: string) => database.prepare(text).all() as Record<string, unknown>[];
  return {
    store,
    guard: guardsOn(store),
    step: (attempt, name, rest = nothing) =>
      attempt.step(name, database, (tx) => {
        tx.exec(INSERT);
        return rest((text) => tx.exec(text));
      }),
    rows: async () => Number(all(COUNT)[0]?.count),
    keptText: async () =>
      all(TEXT)
        .map(({ text }) => String(text))
        .join(),
    takeOver: async () => database.exec(TAKE_OVER),
  };
}

export function onPg(context: TestContext): Promise<ServerSubject> {
  return onPostgres(context, pgStep);
}

export const SERVERS: Readonly<Record<string, (context: TestContext) => Promise<ServerSubject>>> = {
  pg: onPg,
  "postgres.js": (context) => onPostgres(context, postgresJsStep),
  mysql2: onMariadb,
};

export const SUBJECTS: Readonly<Record<string, (context: TestContext) => Promise<StepSubject>>> = {
  ...SERVERS,
  SQLite: onSqlite,
};
