/** Tests corrupt rows: every column of every table of reservations, overwritten with garbage of many kinds. */
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import * as sqlite from "../../src/reservations/sqlite/schema.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { type Cell, type Damaged, trial } from "../reservations/corrupt-rows.ts";
import { IS_FULL } from "../scale/sizes.ts";
import { newReservations } from "./mysql/reservations.ts";
import { poolOf, setFor } from "./postgres/database.ts";
import { migrated, storeOn } from "./postgres/reservations.ts";

const TIMEOUT_MS = 1_800_000;
const AT_ONCE = 8;
/**
 * A test run damages every fifth cell on SQLite and every second elsewhere; a campaign damages all. Cells are listed
 * column by column, so every column is damaged.
 */
const EVERY = IS_FULL ? { SQLite: 1, Postgres: 1, MySQL: 1 } : { SQLite: 5, Postgres: 2, MySQL: 2 };

interface Subject extends Damaged {
  columns(): Promise<
    readonly { readonly table: string; readonly column: string; readonly isNumber: boolean }[]
  >;
}

const HUGE = "9223372036854775807";
const NUMBERS = ["-1", "-9007199254740993", "9007199254740993", HUGE, "NULL"];
const hex = (text: string) => Buffer.from(text).toString("hex");
const JSONS = ["", "{", "null", "[]", "{}", '{"ok":1}', '{"ok":true,"id":7}', "[7,8]"];
const TEXTS = [...JSONS, "no such word", "f".repeat(63), "x".repeat(100_000)];

async function sqliteSubject(): Promise<Subject> {
  const clock = manualClock();
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  const shapes = [sqlite.KEYS, sqlite.COMMITMENTS, sqlite.RESOURCES, sqlite.EVENTS, sqlite.CHECKPOINTS];
  return {
    store: sqliteReservations({ database, clock }),
    pass: async () => clock.advance(1),
    literal: (text) => `'${text}'`,
    async damage(table, column, where, garbage) {
      try {
        // One table has no rowid; its condition selects one row anyway.
        const row =
          table === sqlite.RESOURCES.table
            ? where
            : `rowid = (SELECT rowid FROM ${table} WHERE ${where} LIMIT 1)`;
        const text = `UPDATE ${table} SET ${column} = ${garbage} WHERE ${row} AND ${column} IS NOT ${garbage}`;
        return Number(database.prepare(text).run().changes) === 1;
      } catch {
        return false;
      }
    },
    columns: async () =>
      shapes.flatMap(({ table, columns }) => columns.map((column) => ({ table, column, isNumber: true }))),
  };
}

async function postgresSubject(context: TestContext): Promise<Subject> {
  const url = await migrated(context);
  await setFor(url, { synchronous_commit: "off" });
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return {
    store: storeOn(url),
    pass: () => new Promise((resolve) => setTimeout(resolve, 2)),
    literal: (text) => `'${text}'`,
    async damage(table, column, where, garbage) {
      const row = `ctid = (SELECT ctid FROM ${table} WHERE ${where} LIMIT 1)`;
      const written = await pool
        .query(
          `UPDATE ${table} SET ${column} = ${garbage} WHERE ${row} AND ${column} IS DISTINCT FROM ${garbage}`,
        )
        .catch(() => undefined);
      return written?.rowCount === 1;
    },
    async columns() {
      const { rows } = await pool.query(
        `SELECT table_name, column_name, data_type FROM information_schema.columns
         WHERE table_schema = 'public' AND table_name NOT LIKE '%migrations' ORDER BY table_name, column_name`,
      );
      return rows.map((row) => ({
        table: row.table_name,
        column: row.column_name,
        isNumber: row.data_type === "bigint",
      }));
    },
  };
}

async function mysqlSubject(context: TestContext): Promise<Subject> {
  const { pool, store } = await newReservations(context);
  return {
    store,
    pass: () => new Promise((resolve) => setTimeout(resolve, 2)),
    literal: (text) => `X'${hex(text)}'`,
    async damage(table, column, where, garbage) {
      const [written] = await pool
        .query(
          `UPDATE ${table} SET \`${column}\` = ${garbage} WHERE ${where} AND NOT (\`${column}\` <=> ${garbage}) LIMIT 1`,
        )
        .catch(() => [undefined]);
      return (written as { readonly affectedRows: number } | undefined)?.affectedRows === 1;
    },
    async columns() {
      const [rows] = await pool.query(
        `SELECT table_name AS t, column_name AS c, data_type AS d FROM information_schema.columns
         WHERE table_schema = DATABASE() AND table_name NOT LIKE '%versions' ORDER BY table_name, column_name`,
      );
      return (rows as { t: string; c: string; d: string }[]).map(({ t, c, d }) => ({
        table: t,
        column: c,
        isNumber: d === "bigint" || d === "tinyint",
      }));
    },
  };
}

/** In a typed database, only values that fit the column type can be written; SQLite accepts any value in any cell. */
const TYPED = (isNumber: boolean) =>
  isNumber ? ["-1", HUGE, "NULL"] : ["NULL", "'{'", "'[7,8]'", "'no such word'"];

const SUBJECTS = [
  {
    name: "SQLite",
    open: sqliteSubject,
    garbage: () => [
      ...NUMBERS,
      "1.5",
      "'NaN'",
      "X'41'",
      "X'4100'",
      "X'ff00fe'",
      ...TEXTS.map((text) => `'${text}'`),
    ],
  },
  { name: "Postgres", open: postgresSubject, garbage: TYPED },
  { name: "MySQL", open: mysqlSubject, garbage: (isNumber: boolean) => [...TYPED(isNumber), "X'ff00fe'"] },
] as const;

for (const { name, open, garbage } of SUBJECTS)
  test(
    `one damaged cell on ${name} is an offender in the audit, and nothing else is lost`,
    async (context: TestContext) => {
      const subject = await open(context);
      // The first call creates the tables.
      await subject.store.elapsed("none", 1);
      const cells = (await subject.columns())
        .flatMap(({ table, column, isNumber }) =>
          garbage(isNumber).map((each): Cell => ({ table, column, garbage: each })),
        )
        .filter((_, index) => index % EVERY[name] === 0);
      const wrong: string[] = [];
      let trials = 0;
      // Each case has its own namespace, so several run at the same time.
      for (let from = 0; from < cells.length; from += AT_ONCE)
        await Promise.all(
          cells.slice(from, from + AT_ONCE).map(async (cell) => {
            const found = await trial(subject, cell);
            if (found === undefined) return;
            trials++;
            const named = `${cell.table}.${cell.column} = ${cell.garbage.slice(0, 30)}`;
            wrong.push(...found.map((problem) => `${named}: ${problem}`));
          }),
        );
      console.log(`${trials} damaged cells on ${name}`);
      expect(wrong).toEqual([]);
      expect(trials).toBeGreaterThan(IS_FULL ? 140 : 60);
    },
    TIMEOUT_MS,
  );
