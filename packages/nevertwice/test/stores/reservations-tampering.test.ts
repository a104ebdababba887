/**
 * Tests that the audit sees tampering with the tables, by SQL on each database: it names the record, or docs/audit.md lists
 * the case with the reason. Every case is undone, so that all of them begin with the same rows.
 */
import { DatabaseSync } from "@photostructure/sqlite";
import { createPool } from "mysql2/promise";
import pg from "pg";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import type { AuditData, ReservationStore } from "../../src/reservations/index.ts";
import { TABLE_NAMES } from "../../src/reservations/mysql/schema.ts";
import { mysqlReservations } from "../../src/reservations/mysql.ts";
import { tableNames } from "../../src/reservations/postgres/schema.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { text } from "../documents.ts";
import { TAMPERINGS, type Tampering } from "../reservations/tampering.ts";
import { type Dialect, openTamperingScene, type TamperingScene } from "../reservations/tampering-scene.ts";
import { newDatabase } from "./mysql/pools.ts";
import { migrated } from "./postgres/reservations.ts";

interface Subject {
  readonly store: ReservationStore;
  readonly dialect: Dialect;
  pass(): Promise<void> | void;
  /** Runs a statement on the only connection of the store. */
  run(sql: string): Promise<unknown> | unknown;
  /** Before a case, and after it. */
  readonly begin: readonly string[];
  readonly undo: readonly string[];
}

/** Some reads of a store on a server are transactions of their own, so the rows are copied and put back. */
function copied(tables: readonly string[]): Pick<Subject, "begin" | "undo"> {
  return {
    begin: tables.map((table) => `CREATE TABLE IF NOT EXISTS copy_of_${table} AS SELECT * FROM ${table}`),
    undo: tables.flatMap((table) => [
      `DELETE FROM ${table}`,
      `INSERT INTO ${table} SELECT * FROM copy_of_${table}`,
    ]),
  };
}

const { migrations: _, ...POSTGRES } = tableNames(undefined);
const POSTGRES_TABLES = Object.values(POSTGRES);

const inText = (hex: string) => `'${hex}'`;
const afterMoments = () => new Promise<void>((resolve) => setTimeout(resolve, 5));

function sqliteSubject(): Subject {
  const clock = manualClock();
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  return {
    store: sqliteReservations({ database, clock }),
    pass: () => clock.advance(5),
    run: (sql) => database.exec(sql),
    begin: ["BEGIN"],
    undo: ["ROLLBACK"],
    dialect: {
      checkpoints: "nevertwice_reservation_checkpoints",
      hash: (hex) => `X'${hex}'`,
      digest: (digest) => `X'0${digest.replace(":", "")}'`,
      named: (scope, key) => `scope = '${scope}', key = '${key}'`,
      yes: "1",
      writer: undefined,
    },
  };
}

async function postgresSubject(context: TestContext): Promise<Subject> {
  const pool = new pg.Pool({ connectionString: await migrated(context), max: 1 });
  onTestFinished(() => pool.end());
  return {
    store: postgresReservations({ client: pool }),
    pass: afterMoments,
    run: (sql) => pool.query(sql),
    ...copied(POSTGRES_TABLES),
    dialect: {
      checkpoints: "nevertwice_checkpoints",
      hash: inText,
      digest: inText,
      named: (scope, key) => `parts = '${JSON.stringify([scope, key])}'`,
      yes: "true",
      writer: "written_by",
    },
  };
}

async function mysqlSubject(context: TestContext): Promise<Subject> {
  const pool = createPool({ uri: await newDatabase(context), connectionLimit: 1 });
  onTestFinished(() => pool.end());
  const store = mysqlReservations({ client: pool });
  await store.migrate();
  return {
    store,
    pass: afterMoments,
    run: (sql) => pool.query(sql),
    ...copied(TABLE_NAMES),
    dialect: {
      checkpoints: "nevertwice_checkpoints",
      hash: inText,
      digest: inText,
      named: (scope, key) => `scope = '${scope}', \`key\` = '${key}'`,
      yes: "1",
      writer: "checkpoint",
    },
  };
}

/** What is wrong with the audit of the altered tables; undefined if all is as it should be. */
function findMiss({ how, names }: Tampering, scene: TamperingScene, data: AuditData): string | undefined {
  const offenders = data.invariants.flatMap(({ id, offenders: found }) =>
    found.map(({ subject, problem }) => `${id} ${subject}: ${problem}`),
  );
  if (names === "unseen") return data.ok ? undefined : `${how}: it is seen, as ${offenders.join(" | ")}`;
  const name = names(scene);
  if (!data.ok && offenders.some((one) => one.includes(` ${name}`))) return undefined;
  return `${how}: ${name} is not named${offenders.length === 0 ? ", nothing is" : ` in ${offenders.join(" | ")}`}`;
}

const SUBJECTS = [
  ["SQLite", sqliteSubject],
  ["Postgres", postgresSubject],
  ["MariaDB", mysqlSubject],
] as const;

test.for(SUBJECTS)(
  "the audit names what was altered by hand in the tables of %s",
  { timeout: 120_000 },
  async ([, open], context) => {
    const { store, dialect, pass, run, begin, undo } = await open(context);
    const scene = await openTamperingScene(store, dialect, pass);
    expect((await scene.desk.audit({ anchor: scene.anchor })).ok).toBe(true);
    const misses: string[] = [];
    for (const tampering of TAMPERINGS) {
      const statements = tampering.sql(scene);
      if (statements.length === 0) continue;
      for (const statement of begin) await run(statement);
      try {
        for (const statement of statements) await run(statement);
        const miss = findMiss(tampering, scene, await scene.desk.audit());
        if (miss !== undefined) misses.push(miss);
        const { anchored } = tampering;
        if (anchored === undefined) continue;
        const data = await scene.desk.audit({ anchor: scene.anchor });
        const names = () => `resource:${anchored}`;
        const unanchored = findMiss({ ...tampering, names }, scene, data);
        if (unanchored !== undefined) misses.push(`with an anchor, ${unanchored}`);
      } catch (error) {
        misses.push(`${tampering.how}: ${String(error)}`);
      } finally {
        for (const statement of undo) await run(statement);
      }
    }
    expect(misses).toEqual([]);
    expect((await scene.desk.audit({ anchor: scene.anchor })).ok).toBe(true);
  },
);

test("there are at least 65 ways, and docs/audit.md lists exactly those that the audit does not see", async () => {
  expect(new Set(TAMPERINGS.map(({ how }) => how)).size).toBe(TAMPERINGS.length);
  expect(TAMPERINGS.length).toBeGreaterThanOrEqual(65);
  const docs = await text("docs/audit.md");
  const table = docs.slice(docs.indexOf("| not seen in the records alone |"));
  const listed = [...table.slice(0, table.indexOf("\n\n")).matchAll(/^\| ([^|]+) \| (yes|no) \|/gm)].map(
    ([, how, isAnchored]) => [how?.trim(), isAnchored],
  );
  const unseen = TAMPERINGS.filter(({ names }) => names === "unseen");
  expect(listed).toEqual(unseen.map(({ how, anchored }) => [how, anchored === undefined ? "no" : "yes"]));
});
