/**
 * Every store case on what Node 20 cannot run: `node on-newer-node.js <build> <better-sqlite3>`, with a newer Node. Runs
 * them for a file on `node:sqlite`, and for a connection of `node:sqlite` and of better-sqlite3 on a clock that is moved.
 * Prints one line of JSON.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [build = "", betterSqlite3 = ""] = process.argv.slice(2);
const { sqliteStore } = await import(`${build}stores/sqlite.js`);
const { manualClock, storeCases } = await import(`${build}testing/index.js`);
// Named so that a compiler without its types does not look for them.
const builtIn = "node:sqlite";
const { DatabaseSync } = await import(builtIn);
const BetterSqlite3 = createRequire(import.meta.url)(betterSqlite3);

const folder = await mkdtemp(join(tmpdir(), "nevertwice-sqlite-"));
const shared = sqliteStore({ file: join(folder, "cases.db") });

/** @param {() => object} connect */
const onConnection = (connect) => () => {
  const clock = manualClock();
  return { store: sqliteStore({ database: connect(), clock }), advance: clock.advance };
};

/** @type {Readonly<Record<string, () => object>>} */
const STORES = {
  "a file on node:sqlite": () => ({ store: shared, dispose() {} }),
  "a connection of node:sqlite": onConnection(() => new DatabaseSync(":memory:")),
  "a connection of node:sqlite that reads bigints": onConnection(
    () => new DatabaseSync(":memory:", { readBigInts: true }),
  ),
  "a connection of better-sqlite3": onConnection(() => new BetterSqlite3(":memory:")),
  "a connection of better-sqlite3 that reads bigints": onConnection(() => {
    const database = new BetterSqlite3(":memory:");
    database.defaultSafeIntegers(true);
    return database;
  }),
};

/** @type {string[]} */
const failed = [];
const skipped = new Set();
let passed = 0;

/** @param {string} title @param {{ name: string, guarantee: string, run(): Promise<unknown> }} asked */
async function ask(title, asked) {
  try {
    if (await asked.run()) skipped.add(asked.name);
    else passed++;
  } catch (error) {
    failed.push(`${title}: ${asked.guarantee}: ${asked.name}: ${error}`);
  }
}

for (const [title, create] of Object.entries(STORES)) {
  await Promise.all(
    storeCases(create).map((/** @type {Parameters<typeof ask>[1]} */ asked) => ask(title, asked)),
  );
}

/** What is said of a transaction of the caller's, which each driver reports in words of its own. */
async function refusesOpenTransactions() {
  for (const database of [new DatabaseSync(":memory:"), new BetterSqlite3(":memory:")]) {
    database.exec("BEGIN");
    const said = await sqliteStore({ database })
      .read("nothing")
      .catch((/** @type {{ code: string }} */ error) => error.code);
    if (said === "store-unsafe") passed++;
    else failed.push(`an open transaction: ${said}`);
  }
}
await refusesOpenTransactions();

const { title } = await shared.settings();
await shared.close();
await rm(folder, { recursive: true });
process.stdout.write(`${JSON.stringify({ passed, failed, skipped: [...skipped].sort(), title })}\n`);
