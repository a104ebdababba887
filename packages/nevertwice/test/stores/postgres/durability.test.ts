/** Tests which faults a claim survives, by the settings of the server: as they are judged, and as they are read. */
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { FAULTS } from "../../../src/core/durability.ts";
import {
  judgeDurability,
  type PostgresSettings,
  toPostgresSettings,
} from "../../../src/stores/postgres/durability.ts";
import { recordTables } from "../../../src/stores/postgres/schema.ts";
import { migrationSql, postgresStore } from "../../../src/stores/postgres.ts";
import { createStatements } from "../../../src/stores/postgres-sql.ts";
import { startPostgres } from "../../services/postgres.ts";
import { sharedUrl, startFor } from "../../services/services.ts";
import { createDatabase, poolOf, query, setFor } from "./database.ts";
import { startStandby } from "./standby.ts";

const SAFE: PostgresSettings = {
  version: "15.18",
  fsync: "on",
  fullPageWrites: "on",
  synchronousCommit: "on",
  synchronousStandbyNames: "",
  isUnlogged: false,
  synchronousStandbys: 0,
  walCompression: "off",
  maxWalMegabytes: 1_024,
  oldTransactions: [],
};

/** Which faults are survived, in their order. */
function survived(settings: Partial<PostgresSettings>): string[] {
  const { survives } = judgeDurability({ ...SAFE, ...settings });
  return FAULTS.map((fault) => survives[fault].survives);
}

const STANDBY = { synchronousStandbyNames: "ANY 1 (a, b)", synchronousStandbys: 2 };

describe("the judgement of settings", () => {
  test.for<[string, Partial<PostgresSettings>, string[]]>([
    ["the defaults survive all but a failover", {}, ["yes", "yes", "yes", "no"]],
    ["a quorum of standbys survives a failover", STANDBY, ["yes", "yes", "yes", "yes"]],
    [
      "so does one that applies",
      { ...STANDBY, synchronousCommit: "remote_apply" },
      ["yes", "yes", "yes", "yes"],
    ],
    [
      "standbys that the role may not see count as connected",
      { ...STANDBY, synchronousStandbys: undefined },
      ["yes", "yes", "yes", "yes"],
    ],
    [
      "named standbys that are away survive no failover",
      { ...STANDBY, synchronousStandbys: 0 },
      ["yes", "yes", "yes", "no"],
    ],
    [
      "a commit that waits for no standby's disk survives no failover",
      { ...STANDBY, synchronousCommit: "remote_write" },
      ["yes", "yes", "yes", "no"],
    ],
    ["nor does a local one", { ...STANDBY, synchronousCommit: "local" }, ["yes", "yes", "yes", "no"]],
    [
      "synchronous_commit off survives our own crash alone",
      { synchronousCommit: "off" },
      ["yes", "no", "no", "no"],
    ],
    ["fsync off survives no power loss", { fsync: "off" }, ["yes", "yes", "no", "no"]],
    ["full_page_writes off survives no power loss", { fullPageWrites: "off" }, ["yes", "yes", "no", "no"]],
    [
      "an unlogged table survives our own crash alone",
      { ...STANDBY, isUnlogged: true },
      ["yes", "no", "no", "no"],
    ],
  ])("%s", ([, settings, expected]) => {
    expect(survived(settings)).toEqual(expected);
  });

  test("on a server of Patroni the advice is a setting of Patroni, and a note says what SQL cannot show", () => {
    const bare = judgeDurability({ ...SAFE, isPatroni: true });
    expect(bare.survives.failover).toMatchObject({
      survives: "no",
      raise: expect.stringContaining("synchronous_mode=true -s synchronous_mode_strict=true"),
    });
    const strict = judgeDurability({ ...SAFE, ...STANDBY, isPatroni: true });
    expect(strict.survives.failover.survives).toBe("yes");
    expect(strict.notes).toContainEqual(
      expect.stringContaining("No SQL shows whether synchronous_mode_strict"),
    );
    const other = judgeDurability({ ...SAFE, ...STANDBY });
    expect(other.notes).not.toContainEqual(expect.stringContaining("Patroni"));
  });

  test("every fault that the server does not survive names the current setting and the better one", () => {
    for (const settings of [{}, { synchronousCommit: "off" }, { fsync: "off" }, { isUnlogged: true }]) {
      const { survives, title } = judgeDurability({ ...SAFE, ...settings });
      expect(title).toContain("Postgres 15.18");
      for (const fault of FAULTS)
        if (survives[fault].survives === "no") expect(survives[fault].raise).toBeTruthy();
    }
    const { survives } = judgeDurability({ ...SAFE, synchronousCommit: "off" });
    expect(survives["store-crash"]).toMatchObject({
      because: expect.stringContaining("synchronous_commit off"),
      raise: "synchronous_commit = on",
    });
  });
});

describe("the notes about the size of the log", () => {
  const about = (settings: Partial<PostgresSettings>) =>
    judgeDurability({ ...SAFE, ...settings }).notes.filter((note) => note.includes("wal"));

  test.for<[string, Partial<PostgresSettings>, string[]]>([
    [
      "name both settings on a server with defaults",
      {},
      [
        expect.stringMatching(
          /^wal_compression off, max_wal_size 1024 MB: .*set wal_compression = on and a larger max_wal_size/,
        ),
      ],
    ],
    [
      "leave out a log that is large enough",
      { maxWalMegabytes: 8_192 },
      [expect.stringMatching(/set wal_compression = on$/)],
    ],
    [
      "leave out a log that is compressed",
      { walCompression: "lz4" },
      [expect.stringMatching(/set a larger max_wal_size \(after/)],
    ],
    ["are left out if both are set", { walCompression: "on", maxWalMegabytes: 4_096 }, []],
    ["are left out without full pages", { fullPageWrites: "off" }, []],
    [
      "are left out where the settings were not read",
      { walCompression: undefined, maxWalMegabytes: undefined },
      [],
    ],
  ])("%s", ([, settings, expected]) => {
    expect(about(settings)).toEqual(expected);
  });
});

test("reservations, which do not read the settings of the log, get no note about them", () => {
  const rows = [
    ["full_page_writes", "on"],
    ["fsync", "on"],
  ];
  expect(toPostgresSettings(rows)).toMatchObject({ walCompression: undefined, maxWalMegabytes: undefined });
});

describe("the settings of a live server", () => {
  async function surviving(url: string): Promise<readonly string[]> {
    const pool = poolOf(url);
    onTestFinished(() => pool.end());
    const settings = await postgresStore({ client: pool }).settings?.();
    return FAULTS.map((fault) => settings?.survives[fault].survives ?? "");
  }

  async function migrated(context: TestContext): Promise<string> {
    const url = await createDatabase(sharedUrl(context, "postgres"));
    await query(url, migrationSql());
    return url;
  }

  test("a server with default settings survives everything except a failover", async (context) => {
    expect(await surviving(await migrated(context))).toEqual(["yes", "yes", "yes", "no"]);
  });

  test("settings of a database or a role count", async (context) => {
    const url = await migrated(context);
    await setFor(url, { synchronous_commit: "off" });
    expect(await surviving(url)).toEqual(["yes", "no", "no", "no"]);
  });

  test("the notes name the settings of the log that reduce its size, until they are set", async (context) => {
    const logNotes = async (url: string) => {
      const pool = poolOf(url);
      onTestFinished(() => pool.end());
      const settings = await postgresStore({ client: pool }).settings?.();
      return settings?.notes.filter((note) => note.includes("wal_compression"));
    };
    expect(await logNotes(await migrated(context))).toEqual([
      expect.stringContaining("wal_compression off, max_wal_size 1024 MB"),
    ]);
    const tuned = await startFor(context, () =>
      startPostgres({ settings: { wal_compression: "on", max_wal_size: "4GB" } }),
    );
    await query(tuned.url, migrationSql());
    expect(await logNotes(tuned.url)).toEqual([]);
  });

  test("an unlogged table is detected", async (context) => {
    const url = await migrated(context);
    await query(url, "ALTER TABLE nevertwice_records SET UNLOGGED");
    expect(await surviving(url)).toEqual(["yes", "no", "no", "no"]);
  });

  test("a synchronous standby survives a failover once it is connected", async (context) => {
    const primary = await startFor(context, () =>
      startPostgres({ settings: { synchronous_standby_names: "*", synchronous_commit: "local" } }),
    );
    await query(primary.url, migrationSql());
    await setFor(primary.url, { synchronous_commit: "on" });
    expect(await surviving(primary.url)).toEqual(["yes", "yes", "yes", "no"]);
    await startFor(context, () => startStandby(primary));
    await expect.poll(() => surviving(primary.url)).toEqual(["yes", "yes", "yes", "yes"]);
  });
});

test("transactions that have been open for long are named, with how long and by whom", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  const pool = poolOf(url, { application_name: "report" });
  onTestFinished(() => pool.end());
  await pool.query(migrationSql());
  const old = await pool.connect();
  onTestFinished(() => old.release(true));
  await old.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  const { text } = createStatements(recordTables(undefined), (what) => what).settings;
  const notesAfter = async (age: string) => {
    const asked = text.replaceAll("5 minutes", age);
    const { rows } = await pool.query({ text: asked, rowMode: "array" });
    return judgeDurability(toPostgresSettings(rows)).notes.join("\n");
  };
  expect(await notesAfter("0 minutes")).toMatch(
    /a transaction of report \(process \d+, idle in transaction\) has been open for 0 minutes: until it ends/,
  );
  expect(await notesAfter("5 minutes")).not.toContain("has been open");
});
