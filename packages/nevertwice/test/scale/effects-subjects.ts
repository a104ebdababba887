/** What the trial of kills runs: a door of the library on one database, with one driver. */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { createConnection } from "mysql2/promise";
import { scratchFolder } from "../scratch-folder.ts";
import { query } from "../stores/postgres/database.ts";
import { type Judge, judgeRows, judgeSteps, type Row } from "./effects-referee.ts";
import { MYSQL, openSubject, POSTGRES, type Scene } from "./subjects.ts";
import type { Point } from "./workers/effects/points.js";

/** A database with the tables of the store and of the ledger. */
export interface EffectDatabase {
  readonly name: string;
  create(scene: Scene): Promise<string>;
  /** Everything in the ledger. */
  rows(url: string): Promise<readonly Row[]>;
}

export interface EffectSubject {
  readonly name: string;
  readonly database: EffectDatabase;
  /** A file of workers/effects/, and one of its drivers. */
  readonly door: string;
  readonly driver: string;
  readonly judge: Judge;
  /** The statements at which its processes are killed. */
  readonly statements: readonly Point["statement"][];
}

const SELECT = "SELECT * FROM ledger";

const ON_POSTGRES: EffectDatabase = {
  name: "Postgres",
  async create(scene) {
    const url = await POSTGRES.create(scene);
    await openSubject(scene, url);
    await query(url, "CREATE TABLE ledger (key text NOT NULL, value text NOT NULL)");
    return url;
  },
  rows: (url) => query<Row>(url, SELECT),
};

const ON_MARIADB: EffectDatabase = {
  name: "MariaDB",
  async create(scene) {
    const url = await MYSQL.create(scene);
    await openSubject(scene, url);
    await onMariadb(
      url,
      "CREATE TABLE ledger (`key` varchar(64) NOT NULL, value varchar(64) NOT NULL) ENGINE = InnoDB",
    );
    return url;
  },
  rows: async (url) => (await onMariadb(url, SELECT)) as readonly Row[],
};

const ON_SQLITE: EffectDatabase = {
  name: "SQLite",
  async create(scene) {
    const url = `sqlite:${join(await scratchFolder(scene as never), "app.db")}`;
    const store = await openSubject(scene, url);
    await store.read("");
    onSqlite(url, (database) =>
      database.exec("CREATE TABLE ledger (key text NOT NULL, value text NOT NULL)"),
    );
    return url;
  },
  rows: async (url) =>
    onSqlite(url, (database) => database.prepare(SELECT).all() as unknown as readonly Row[]),
};

async function onMariadb(url: string, text: string): Promise<unknown> {
  const connection = await createConnection(url);
  try {
    return (await connection.query(text))[0];
  } finally {
    await connection.end();
  }
}

function onSqlite<T>(url: string, use: (database: InstanceType<typeof DatabaseSync>) => T): T {
  const database = new DatabaseSync(url.slice(SQLITE_SCHEME.length));
  try {
    return use(database);
  } finally {
    database.close();
  }
}

const SQLITE_SCHEME = "sqlite:";

const TRANSACTION: readonly Point["statement"][] = [
  "claim",
  "begin",
  "lock",
  "work",
  "complete",
  "commit",
  "any",
];
const ONCE: readonly Point["statement"][] = ["claim", "work", "complete", "commit", "any"];
const STEPS: readonly Point["statement"][] = ["claim", "work", "step", "complete", "any"];

/** A subject is one line here, and a driver in a file of workers/effects/. */
export const EFFECT_SUBJECTS: readonly EffectSubject[] = [
  {
    name: "guard.transaction, pg",
    database: ON_POSTGRES,
    door: "transaction",
    driver: "pg",
    judge: judgeRows,
    statements: TRANSACTION,
  },
  {
    name: "guard.transaction, postgres.js",
    database: ON_POSTGRES,
    door: "transaction",
    driver: "postgres.js",
    judge: judgeRows,
    statements: TRANSACTION,
  },
  {
    name: "guard.transaction, Kysely",
    database: ON_POSTGRES,
    door: "transaction",
    driver: "kysely",
    judge: judgeRows,
    statements: TRANSACTION,
  },
  {
    name: "guard.transaction, mysql2",
    database: ON_MARIADB,
    door: "transaction",
    driver: "mysql2",
    judge: judgeRows,
    statements: TRANSACTION,
  },
  {
    name: "guard.transaction, SQLite",
    database: ON_SQLITE,
    door: "transaction",
    driver: "sqlite",
    judge: judgeRows,
    statements: TRANSACTION,
  },
  { name: "once, pg", database: ON_POSTGRES, door: "once", driver: "pg", judge: judgeRows, statements: ONCE },
  {
    name: "once, mysql2",
    database: ON_MARIADB,
    door: "once",
    driver: "mysql2",
    judge: judgeRows,
    statements: ONCE,
  },
  {
    name: "once, SQLite",
    database: ON_SQLITE,
    door: "once",
    driver: "sqlite",
    judge: judgeRows,
    statements: ONCE,
  },
  {
    name: "attempt.step, Postgres",
    database: ON_POSTGRES,
    door: "steps",
    driver: "pg",
    judge: judgeSteps,
    statements: STEPS,
  },
  {
    name: "attempt.step, MariaDB",
    database: ON_MARIADB,
    door: "steps",
    driver: "mysql2",
    judge: judgeSteps,
    statements: STEPS,
  },
  {
    name: "attempt.step, SQLite",
    database: ON_SQLITE,
    door: "steps",
    driver: "sqlite",
    judge: judgeSteps,
    statements: STEPS,
  },
];
