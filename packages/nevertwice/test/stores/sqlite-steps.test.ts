/** Tests one SQLite file that this release shares with a release without steps, by the statements of that release. */
import { expect, test } from "vitest";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { MIGRATIONS } from "../../src/stores/sqlite-sql.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import {
  claimOf,
  completionOf,
  connections,
  LEASE_MS,
  RETENTION_MS,
  scratchFiles,
} from "./sqlite/scratch.ts";

const fileNamed = scratchFiles();
const connect = connections();

/** The statement with which a release without steps writes a claim over an existing record. */
const OLD_UPDATE = `UPDATE nevertwice_records SET purge_at = ?, state = ?, token = ?, spent = ?, fence = ?, number = ?,
  hold = ?, took_over = ?, claimed_at = ?, lease_ms = ?, lease_ends_at = ?, retention_ms = ?, kept_until = ?,
  completed_at = ?, fingerprint = ?, parts = ?, outcome = ? WHERE rowid = ?`;
/** And the one with which it reads a record. */
const OLD_FIND = `SELECT rowid, purge_at, state, token, spent, fence, number, hold, took_over, claimed_at, lease_ms,
  lease_ends_at, retention_ms, kept_until, completed_at, fingerprint, parts, outcome FROM nevertwice_records WHERE id = ?`;

function createShared() {
  const file = fileNamed();
  const database = connect(file);
  const clock = manualClock();
  const store = sqliteStore({ database, clock });
  const claim = claimOf("a");

  /** A claim of the release without steps: a takeover, or the first one of a new life if the record has expired. */
  function claimByOldRelease(token: string, number: number): void {
    const row = database.prepare(OLD_FIND).get(Buffer.from(claim.id, "hex")) as Record<string, number>;
    const now = clock.now();
    const until = now + LEASE_MS + RETENTION_MS;
    const times = [now, LEASE_MS, now + LEASE_MS, RETENTION_MS, until];
    const parts = '["shop","s","charge","a"]';
    const values = [
      until,
      "pending",
      token,
      0,
      Number(row.fence) + 1,
      number,
      0,
      1,
      ...times,
      null,
      null,
      parts,
      null,
    ];
    database.prepare(OLD_UPDATE).run(...values, Number(row.rowid));
  }

  async function keepTwo(token = claim.token): Promise<void> {
    await store.claim({ ...claim, token });
    for (const name of ["charge", "ship"])
      await store.keepStep?.({ id: claim.id, token, name, outcome: name });
  }

  return { file, database, clock, store, claim, claimByOldRelease, keepTwo };
}

test("a file of a release without steps gets the column, keeps its version and its records", async () => {
  const database = connect(fileNamed());
  for (const migration of MIGRATIONS) database.exec(migration);
  database.exec("UPDATE nevertwice_store SET schema_version = 2");
  const { id } = claimOf("a");
  const before = sqliteStore({ database });
  await before.claim(claimOf("a"));
  await before.close();
  const columns = database.prepare("PRAGMA table_info(nevertwice_records)").all();
  expect(columns.filter(({ name }: { name: string }) => name === "steps")).toMatchObject([
    { type: "TEXT", notnull: 0, dflt_value: null },
  ]);
  // The release without steps refuses a file with another version.
  expect(database.prepare("SELECT schema_version FROM nevertwice_store").all()).toEqual([
    { schema_version: 2 },
  ]);
  const again = sqliteStore({ database });
  expect(await again.read(id)).toMatchObject({ state: "pending" });
  expect(await again.complete(completionOf("a"))).toBe(true);
});

test("steps that the other release walked over in a takeover count as absent", async () => {
  const { clock, store, claim, claimByOldRelease, keepTwo } = createShared();
  await keepTwo();
  clock.advance(LEASE_MS);
  claimByOldRelease("old", 2);
  expect(await store.read(claim.id)).not.toHaveProperty("steps");
  clock.advance(LEASE_MS);
  const answer = await store.claim({ ...claim, token: "new" });
  expect(answer).toMatchObject({ status: "new", number: 3 });
  expect(answer).not.toHaveProperty("steps");
});

test("steps of an earlier life do not come back after the other release began a new one", async () => {
  const { clock, store, claim, database, claimByOldRelease, keepTwo } = createShared();
  await keepTwo();
  clock.advance(LEASE_MS + RETENTION_MS);
  claimByOldRelease("old", 1);
  clock.advance(LEASE_MS);
  expect(await store.claim({ ...claim, token: "new" })).not.toHaveProperty("steps");
  expect(database.prepare("SELECT steps FROM nevertwice_records").all()).toEqual([{ steps: null }]);
});

test("a record without steps is written as the other release writes it", async () => {
  const { store, database } = createShared();
  await store.claim(claimOf("b"));
  await store.complete(completionOf("b"));
  expect(database.prepare("SELECT steps FROM nevertwice_records").all()).toEqual([{ steps: null }]);
});

test("a step is one commit, and work without steps writes what it wrote before", async () => {
  const { store, database, keepTwo, claim } = createShared();
  const changes = () => (database.prepare("SELECT total_changes() AS n").get() as { n: number }).n;
  await store.claim(claimOf("b"));
  const before = changes();
  await store.complete(completionOf("b"));
  expect(changes() - before).toBe(1);
  await keepTwo();
  expect(await store.complete(completionOf("a"))).toBe(true);
  expect(await store.read(claim.id)).not.toHaveProperty("steps");
  expect(database.prepare("SELECT count(steps) AS n FROM nevertwice_records").get()).toEqual({ n: 0 });
});
