/**
 * Every store case on drivers that Node 20 cannot run: `node on-newer-node.js <build> <better-sqlite3>`, with a newer Node.
 * Runs the cases for a file on `node:sqlite`, and for connections of `node:sqlite` and better-sqlite3 with a manual clock,
 * and the life of a hold in reservations on the same. Prints one line of JSON.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [build = "", betterSqlite3 = ""] = process.argv.slice(2);
const { sqliteStore } = await import(`${build}stores/sqlite.js`);
const { createReservations } = await import(`${build}reservations/index.js`);
const { sqliteReservations } = await import(`${build}reservations/sqlite.js`);
const { manualClock, storeCases } = await import(`${build}testing/index.js`);
// In a variable, so that a compiler without its types does not look for them.
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
const CONNECTIONS = {
  "a connection of node:sqlite": () => new DatabaseSync(":memory:"),
  "a connection of node:sqlite that reads bigints": () => new DatabaseSync(":memory:", { readBigInts: true }),
  "a connection of better-sqlite3": () => new BetterSqlite3(":memory:"),
  "a connection of better-sqlite3 that reads bigints": () => {
    const database = new BetterSqlite3(":memory:");
    database.defaultSafeIntegers(true);
    return database;
  },
};

/** @type {Readonly<Record<string, () => object>>} */
const STORES = {
  "a file on node:sqlite": () => ({ store: shared, dispose() {} }),
  ...Object.fromEntries(
    Object.entries(CONNECTIONS).map(([title, connect]) => [title, onConnection(connect)]),
  ),
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

/** The error inside a transaction of the caller, which each driver reports with a different message. */
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

/** A string with U+0000, where some drivers cut it, is held, confirmed, returned, found and read again. */
async function takesReservations(/** @type {object} */ options) {
  const store = sqliteReservations(options);
  const seats = createReservations({ store, windowMs: 60_000, purgeEveryMs: 0 });
  const request = { resource: "1\u0000A", requester: "ann", durationMs: 60_000, key: "hold\u0000" };
  const { id, ...placed } = await seats.placeHold(request);
  const confirmed = await seats.confirm({ id, key: "confirm" });
  const givenBack = await seats.giveBack({ id, key: "give back" });
  const again = await seats.placeHold(request);
  const got = await seats.get(id);
  const { rows } = await seats.byResource("1\u0000A");
  const keys = await store.keys({ namespace: "default", commitment: id, limit: 2 });
  const history = await seats.history(id);
  const purged = await store.purge(10);
  await seats.close();
  await store.close();
  assert.deepEqual(
    [placed, confirmed, givenBack, again],
    [{ ok: true }, { ok: true }, { ok: true }, { ok: true, id }],
  );
  assert.deepEqual(rows, [got]);
  assert.deepEqual(
    [got.resource, got.state, got.units, got.occupied, keys.rows.length],
    ["1\u0000A", "confirmed", 1, 0, 2],
  );
  assert.deepEqual(
    history.map((/** @type {{ kind: string }} */ { kind }) => kind),
    ["placed", "confirmed", "given-back"],
  );
  assert.deepEqual(purged, { removed: 0, more: false });
}

/** @type {Readonly<Record<string, object>>} */
const RESERVATIONS = {
  "a file on node:sqlite": { file: join(folder, "reservations.db") },
  ...Object.fromEntries(
    Object.entries(CONNECTIONS).map(([name, connect]) => [name, { database: connect() }]),
  ),
};
for (const [name, options] of Object.entries(RESERVATIONS))
  await takesReservations(options).then(
    () => passed++,
    (error) => failed.push(`reservations on ${name}: ${error}`),
  );

const { title } = await shared.settings();
await shared.close();
await rm(folder, { recursive: true });
process.stdout.write(`${JSON.stringify({ passed, failed, skipped: [...skipped].sort(), title })}\n`);
