/** What the trial of kills runs: a door of the library on one database, with one driver. */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { createConnection } from "mysql2/promise";
import { scratchFolder } from "../scratch-folder.ts";
import { query } from "../stores/postgres/database.ts";
import {
  type Judge,
  judgeOutbox,
  judgeRows,
  judgeSagas,
  judgeStepRows,
  judgeSteps,
  type Row,
} from "./effects-referee.ts";
import { MYSQL, openSubject, POSTGRES, type Scene } from "./subjects.ts";
import { prepareOutbox } from "./workers/effects/outbox.js";
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
  /** Creates what it needs besides the tables of the store and of the ledger. */
  prepare?(url: string): Promise<void>;
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

/** What the processes of a subject run, and how it is judged. */
interface Door extends Pick<EffectSubject, "judge" | "statements" | "prepare"> {
  readonly title: string;
  readonly drivers: readonly (keyof typeof DATABASES)[];
}

const DATABASES = {
  pg: ON_POSTGRES,
  "postgres.js": ON_POSTGRES,
  kysely: ON_POSTGRES,
  mysql2: ON_MARIADB,
  sqlite: ON_SQLITE,
};

/** One driver for each database. */
const EACH = ["pg", "mysql2", "sqlite"] as const;

/** Each is a file of workers/effects/ that has these drivers. */
const DOORS: Readonly<Record<string, Door>> = {
  transaction: {
    title: "guard.transaction",
    drivers: ["pg", "postgres.js", "kysely", "mysql2", "sqlite"],
    judge: judgeRows,
    statements: ["claim", "begin", "lock", "work", "complete", "commit", "any"],
  },
  once: {
    title: "once",
    drivers: EACH,
    judge: judgeRows,
    statements: ["claim", "work", "complete", "commit", "any"],
  },
  steps: {
    title: "attempt.step",
    drivers: EACH,
    judge: judgeSteps,
    statements: ["claim", "work", "step", "complete", "any"],
  },
  "step-transaction": {
    title: "attempt.step with a database",
    drivers: EACH,
    judge: judgeStepRows,
    statements: ["claim", "lock", "work", "commit", "complete", "any"],
  },
  saga: {
    title: "saga",
    drivers: EACH,
    judge: judgeSagas,
    statements: ["claim", "work", "step", "complete", "any"],
  },
  outbox: {
    title: "outbox",
    drivers: EACH,
    judge: judgeOutbox,
    statements: ["work", "outbox", "delivery", "commit", "any"],
    prepare: prepareOutbox,
  },
};

export const EFFECT_SUBJECTS: readonly EffectSubject[] = Object.entries(DOORS).flatMap(
  ([door, { title, drivers, ...rest }]) =>
    drivers.map((driver) => ({
      ...rest,
      name: `${title}, ${driver}`,
      door,
      driver,
      database: DATABASES[driver],
    })),
);
