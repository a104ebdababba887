/**
 * Tests that every statement of the SQL stores, of the outbox and of reservations either is about records that it names, or
 * looks at a limited number of rows; and that the server limits the latter in time. A new statement must be in one of the lists.
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import * as mysqlOutboxSql from "../../src/outbox/mysql-sql.ts";
import { outboxTables } from "../../src/outbox/postgres/schema.ts";
import { postgresOutbox } from "../../src/outbox/postgres.ts";
import { createStatements as outboxStatements } from "../../src/outbox/postgres-sql.ts";
import * as mysqlReservationsSql from "../../src/reservations/mysql-sql.ts";
import { tableNames } from "../../src/reservations/postgres/schema.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { createStatements as reservationStatements } from "../../src/reservations/postgres-sql.ts";
import * as mysqlSql from "../../src/stores/mysql-sql.ts";
import { recordTables } from "../../src/stores/postgres/schema.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { createStatements } from "../../src/stores/postgres-sql.ts";
import * as sqliteSql from "../../src/stores/sqlite-sql.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase } from "./postgres/database.ts";

type Named = Readonly<Record<string, unknown>>;

/** The names of the statements that are not in `about`: those are about named records, settings or tables. */
function others(statements: Named, about: readonly string[]): readonly string[] {
  expect(Object.keys(statements)).toEqual(expect.arrayContaining([...about]));
  return Object.keys(statements).filter((name) => !about.includes(name));
}

const SHAPE = { scope: true, key: true, operation: true, state: true };
const PAGE = { table: "commitments", order: "id", filters: ["state"] } as const;

/** Statements that are functions of what they are asked. */
function statementText(statement: unknown, asked: object): string {
  const built = typeof statement === "function" ? statement(asked) : statement;
  return (built as { readonly text: string }).text;
}

const { markLapsed, ...single } = createStatements(recordTables(undefined), (what) => what);
const ofRecords = { ...single, markRecent: markLapsed.recent, markEarlier: markLapsed.earlier };

describe("every statement on Postgres", () => {
  test.each<[string, Named, readonly string[], readonly string[]]>([
    [
      "of records",
      ofRecords,
      [
        "claim",
        "unflushedClaim",
        "complete",
        "keepStep",
        "abandon",
        "renew",
        "read",
        "forget",
        "notify",
        "mark",
        "listSettings",
        "check",
        "settings",
      ],
      ["list", "undecided", "markRecent", "markEarlier", "overdue", "namespaces", "purge"],
    ],
    [
      "of the outbox",
      outboxStatements(outboxTables(undefined)),
      ["settle", "advance", "renew", "retry", "park", "discard", "check"],
      ["claim", "repair", "list", "listKey", "listParked", "forget", "figures"],
    ],
    [
      "of reservations",
      reservationStatements(tableNames(undefined)),
      ["lock", "lockUnlessOpen", "read", "write", "inside", "written", "check", "settings", "now", "get"],
      ["purge", "elapsed", "page", "events"],
    ],
  ])("%s names its records, or has a limit", (_, statements, about, limited) => {
    expect(others(statements, about)).toEqual(expect.arrayContaining([...limited]));
    for (const name of others(statements, about))
      expect(statementText(statements[name], name === "page" ? PAGE : SHAPE), name).toMatch(/LIMIT /);
  });
});

/** What each statement with a limit is asked; the others are about named rows, tables or settings. */
const MYSQL: Readonly<
  Record<string, { readonly sql: Named; readonly bounded: Named; readonly limited?: Named }>
> = {
  "of records": {
    sql: mysqlSql,
    bounded: {
      expiredSql: mysqlSql.expiredSql(0n, 10),
      scanSql: mysqlSql.scanSql({ namespace: "n", state: "lapsed" }, { claimedAt: 1n, id: "i", rows: 10 }),
      undecidedSql: mysqlSql.undecidedSql("n", 10),
      overdueSql: mysqlSql.overdueSql(10),
      namespacesSql: mysqlSql.namespacesSql("n", 10),
    },
  },
  "of the outbox": {
    sql: mysqlOutboxSql,
    bounded: {
      listSql: mysqlOutboxSql.listSql("n", { limit: 10 }, 10),
      figuresSql: mysqlOutboxSql.figuresSql("n"),
    },
    limited: {
      lookSql: mysqlOutboxSql.lookSql("n", undefined, 10),
      scopeSql: mysqlOutboxSql.scopeSql("n", "s", 10),
      repairSql: mysqlOutboxSql.repairSql("n"),
    },
  },
  "of reservations": {
    sql: mysqlReservationsSql,
    bounded: {
      commitmentsSql: mysqlReservationsSql.commitmentsSql({ namespace: "n", limit: 10, state: "held" }),
      resourcesSql: mysqlReservationsSql.resourcesSql({ namespace: "n", limit: 10 }),
      keysSql: mysqlReservationsSql.keysSql({ namespace: "n", limit: 10 }),
      checkpointsSql: mysqlReservationsSql.checkpointsSql({ namespace: "n", limit: 10 }),
      eventsSql: mysqlReservationsSql.eventsSql({ namespace: "n", limit: 10 }),
      elapsedSql: mysqlReservationsSql.elapsedSql("n", 10, undefined),
      pastKeysSql: mysqlReservationsSql.pastKeysSql(10),
    },
    limited: {
      nextElapsedSql: mysqlReservationsSql.nextElapsedSql("n", "r", 1, undefined),
    },
  },
};

/** The statements on MySQL about rows, settings and sessions that they name. */
const MYSQL_NAMED = new Set([
  ...[
    "readSql",
    "touchSql",
    "runningSql",
    "killSql",
    "insertSql",
    "updateSql",
    "deleteSql",
    "purgeSql",
    "listSql",
  ],
  ...["versionReachedSql", "countColumnSql", "enginesSql", "lockSql", "putBehindSql", "claimSql", "failSql"],
  ...["parkEndingsSql", "releaseSql", "headsSql", "advanceSql", "renewSql", "ownSql", "retrySql", "parkSql"],
  ...[
    "freeSql",
    "deleteSeqsSql",
    "lockKeysSql",
    "lockResourcesSql",
    "areFreeSql",
    "deleteKeySql",
    "readKeysSql",
  ],
  ...[
    "readResourcesSql",
    "readCommitmentsSql",
    "resourcesOfSql",
    "clockSql",
    "upsertSql",
    "forgetResourcesSql",
  ],
  ...["flushSql", "writersSql", "getSql", "insideSql", "probeSql", "unprobeSql"],
]);

describe("every statement on MySQL", () => {
  test.each(Object.keys(MYSQL))("%s names its rows, or has a limit of rows and of time", (name) => {
    const { sql, bounded, limited = {} } = MYSQL[name] as (typeof MYSQL)[string];
    const functions = Object.keys(sql).filter((each) => each.endsWith("Sql"));
    const left = functions.filter((each) => !(each in bounded || each in limited || MYSQL_NAMED.has(each)));
    expect(left).toEqual([]);
    for (const [each, text] of Object.entries(bounded)) {
      expect(text, each).toMatch(
        /^\/\*M! SET STATEMENT max_statement_time = 2 FOR \*\/ SELECT \/\*\+ MAX_EXECUTION_TIME\(2000\) \*\//,
      );
      expect(text, each).toMatch(/LIMIT \d/);
    }
    for (const [each, text] of Object.entries(limited)) expect(text, each).toMatch(/LIMIT \d/);
  });
});

test("every statement of the SQLite store names its row, or has a limit", () => {
  const statements = Object.entries(sqliteSql).flatMap(([name, value]) =>
    typeof value === "string" && /nevertwice_records/.test(value) ? [[name, value] as const] : [],
  );
  const named = /WHERE (rowid|id) = \?|^INSERT |^CREATE INDEX|min\(purge_at\)/;
  expect(statements.length).toBeGreaterThan(10);
  for (const [name, text] of [...statements, ["undecidedBy", sqliteSql.undecidedBy("?")]] as const)
    if (!named.test(text)) expect(text, name).toMatch(/LIMIT (\?|1)/);
});

test("on Postgres, each of these statements runs in a transaction that limits it to two seconds", async (context) => {
  const pool = new pg.Pool({
    connectionString: await createDatabase(sharedUrl(context, "postgres")),
    max: 2,
  });
  onTestFinished(() => pool.end());
  const sent: { readonly text: string; readonly within: string }[] = [];
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    let within = "";
    client.query = ((...given: unknown[]) => {
      const [asked] = given as [string | { readonly text: string }];
      const text = typeof asked === "string" ? asked : asked.text;
      if (text.startsWith("BEGIN")) within = text;
      sent.push({ text, within });
      if (/COMMIT$|^ROLLBACK$/.test(text)) within = "";
      return query(...given);
    }) as typeof client.query;
  });
  const [store, outbox, reservations] = [
    postgresStore({ client: pool }),
    postgresOutbox({ client: pool }),
    postgresReservations({ client: pool }),
  ];
  for (const each of [store, outbox, reservations]) await each.migrate();
  const namespace = "n";
  const page = { namespace, limit: 10 };
  const calls: readonly (() => Promise<unknown> | undefined)[] = [
    () => store.list?.(page),
    () => store.list?.({ ...page, scope: "s", key: "k", operation: "o", state: "lapsed" }),
    () => store.undecided?.(page),
    () => store.overdue?.(page),
    () => store.namespaces?.(page),
    () => store.purge(10),
    () => outbox.list(namespace, { limit: 10 }),
    () => outbox.list(namespace, { limit: 10, key: "k" }),
    () => outbox.list(namespace, { limit: 10, state: "parked" }),
    () => outbox.figures(namespace),
    () => outbox.forget(namespace, "s", 10),
    () => reservations.commitments({ ...page, state: "held" }),
    () => reservations.resources(page),
    () => reservations.keys(page),
    () => reservations.checkpoints(page),
    () => reservations.events(page),
    () => reservations.elapsed(namespace, 10, randomUUID()),
    () => reservations.purge(10),
  ];
  for (const call of calls) {
    sent.length = 0;
    await call();
    const limited = sent.find(({ text }) => text.includes("LIMIT"));
    expect(limited?.within, String(call)).toContain("SET LOCAL statement_timeout = 2000");
    // A commit may wait for a standby.
    expect(sent.at(-1)?.text, String(call)).toBe("SET LOCAL statement_timeout = 0; COMMIT");
  }
});
