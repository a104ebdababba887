/** Which faults a SQLite database survives: reads the settings of a live connection and judges them for the doctor. */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import { lookUp, prepareQuery, type SqliteDatabase } from "./client.ts";

/** The settings of a live connection. */
export interface SqliteSettings {
  readonly version: string;
  readonly journalMode: string;
  /** 0 OFF, 1 NORMAL, 2 FULL, 3 EXTRA. */
  readonly synchronous: number;
  readonly isInMemory: boolean;
  /** No other connection can open the file. */
  readonly isExclusive: boolean;
  /** False if a flush stays in the drive's cache: on macOS, unless `fullfsync` is on. */
  readonly isFlushedToDisk: boolean;
}

export const VERSION_SQL = "SELECT sqlite_version()";

export function readSettings(database: SqliteDatabase): SqliteSettings {
  const main = prepareQuery(database, "PRAGMA database_list")
    .all()
    .find(([, name]) => name === "main");
  return {
    version: String(lookUp(database, VERSION_SQL)),
    journalMode: String(lookUp(database, "PRAGMA journal_mode")),
    synchronous: Number(lookUp(database, "PRAGMA synchronous")),
    // The third column is the path of the file, empty for a database in memory.
    isInMemory: !main?.[2],
    isExclusive: lookUp(database, "PRAGMA locking_mode") === "exclusive",
    isFlushedToDisk: process.platform !== "darwin" || lookUp(database, "PRAGMA fullfsync") === 1,
  };
}

/** Earlier versions can corrupt a WAL file that several connections share. */
const FIRST_SAFE_TO_SHARE = [3, 51, 3] as const;

export function isSafeToShare(version: string): boolean {
  const numbers = version.split(".").map(Number);
  const differing = FIRST_SAFE_TO_SHARE.findIndex((number, i) => numbers[i] !== number);
  return differing === -1 || (numbers[differing] ?? 0) > (FIRST_SAFE_TO_SHARE[differing] as number);
}

/** SQLite keeps no log that a restore could go on with. */
const NO_LATER_BACKUP =
  "none of SQLite brings back what was committed after a backup; etcd or Postgres with synchronous_standby_names survive the loss of a machine without a restore";

const LEVELS = ["OFF", "NORMAL", "FULL", "EXTRA"] as const;

export function judgeDurability(settings: SqliteSettings): StoreSettings {
  const { version, journalMode, synchronous, isInMemory, isExclusive } = settings;
  const level = LEVELS[synchronous] ?? String(synchronous);
  const where = isInMemory ? "in memory" : `${journalMode.toUpperCase()}, synchronous ${level}`;
  const crash = crashFinding(settings);
  return {
    title: `SQLite ${version}, ${where}`,
    survives: {
      "our-crash": crash,
      "store-crash": crash,
      "power-loss": crash.survives === "no" ? crash : powerFinding(settings, level),
      failover: { survives: "no", because: "the database is one file on one machine" },
    },
    ...(journalMode === "off" && {
      refused: "journal_mode OFF cannot undo a write that failed half-way; set journal_mode WAL.",
    }),
    notes: [
      ...(isInMemory ? [] : [restoreNote("the machine's clock", NO_LATER_BACKUP)]),
      ...(isExclusive || isInMemory || isSafeToShare(version)
        ? []
        : [
            `SQLite ${version} can corrupt a WAL file that several connections share; use ${FIRST_SAFE_TO_SHARE.join(".")} or later, or one connection only`,
          ]),
    ],
  };
}

/** SQLite runs in our process, so a crash of the store is a crash of the process. */
function crashFinding({ journalMode, isInMemory }: SqliteSettings): Finding {
  if (isInMemory)
    return { survives: "no", because: "the database is in memory", raise: "open a file instead" };
  if (journalMode === "memory" || journalMode === "off")
    return {
      survives: "no",
      because: `journal_mode ${journalMode.toUpperCase()}: a crash in the middle of a write damages the file`,
      raise: "set journal_mode WAL",
    };
  return {
    survives: "yes",
    because: "SQLite runs in our process, and the operating system has what SQLite committed",
  };
}

function powerFinding({ journalMode, synchronous, isFlushedToDisk }: SqliteSettings, level: string): Finding {
  const modes = `journal_mode ${journalMode.toUpperCase()}, synchronous ${level}`;
  // In DELETE mode, removing the journal commits. Only EXTRA flushes the folder that contained the journal.
  const needed = journalMode === "delete" ? 3 : 2;
  if (synchronous < needed)
    return {
      survives: "no",
      because: `${modes}: the last commits may not have reached the disk`,
      raise:
        journalMode === "wal"
          ? 'set synchronous: "full" (PRAGMA synchronous = FULL)'
          : "use { file }, or set journal_mode WAL and synchronous FULL",
    };
  if (!isFlushedToDisk)
    return {
      survives: "no",
      because: "fullfsync is off: on macOS a flush stays in the drive's cache",
      raise: "set PRAGMA fullfsync = ON",
    };
  return { survives: "yes", because: `${modes}: every commit is flushed to disk before it is answered` };
}
