/** What a SQLite connection survives, judged by the settings that were read from it. */
import type { Finding, StoreSettings } from "../../core/settings.ts";

/** As read from the live connection. */
export interface Facts {
  readonly version: string;
  readonly journalMode: string;
  /** 0 OFF, 1 NORMAL, 2 FULL, 3 EXTRA. */
  readonly synchronous: number;
  readonly isInMemory: boolean;
  /** Nobody else can open the file. */
  readonly isExclusive: boolean;
  /** False where a flush stays in the drive's cache: on macOS, unless it is asked for. */
  readonly isFlushedToDisk: boolean;
}

/** Older ones can corrupt a WAL file that several connections share. */
const FIRST_SAFE_TO_SHARE = [3, 51, 3] as const;

export function isSafeToShare(version: string): boolean {
  const numbers = version.split(".").map(Number);
  const differing = FIRST_SAFE_TO_SHARE.findIndex((number, i) => numbers[i] !== number);
  return differing === -1 || (numbers[differing] ?? 0) > (FIRST_SAFE_TO_SHARE[differing] as number);
}

const LEVELS = ["OFF", "NORMAL", "FULL", "EXTRA"] as const;

export function judge(facts: Facts): StoreSettings {
  const { version, journalMode, synchronous, isInMemory, isExclusive } = facts;
  const level = LEVELS[synchronous] ?? String(synchronous);
  const where = isInMemory ? "in memory" : `${journalMode.toUpperCase()}, synchronous ${level}`;
  const crash = crashFinding(facts);
  return {
    title: `SQLite ${version}, ${where}`,
    survives: {
      "our-crash": crash,
      "store-crash": crash,
      "power-loss": crash.survives === "no" ? crash : powerFinding(facts, level),
      failover: { survives: "no", because: "the database is one file on one machine" },
    },
    ...(journalMode === "off" && {
      refused: "journal_mode OFF cannot undo a write that failed half-way; set journal_mode WAL.",
    }),
    notes:
      isExclusive || isInMemory || isSafeToShare(version)
        ? []
        : [
            `SQLite ${version} can corrupt a WAL file that several connections share; use ${FIRST_SAFE_TO_SHARE.join(".")} or later, or one connection only`,
          ],
  };
}

/** SQLite runs in our process: its crash is ours. */
function crashFinding({ journalMode, isInMemory }: Facts): Finding {
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
    because: "SQLite runs in our process, and what it committed is with the operating system",
  };
}

function powerFinding({ journalMode, synchronous, isFlushedToDisk }: Facts, level: string): Finding {
  const is = `journal_mode ${journalMode.toUpperCase()}, synchronous ${level}`;
  // In DELETE mode a commit is the removal of the journal, and only EXTRA flushes the folder it is removed from.
  const needed = journalMode === "delete" ? 3 : 2;
  if (synchronous < needed)
    return {
      survives: "no",
      because: `${is}: the last commits may not have reached the disk`,
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
  return { survives: "yes", because: `${is}: every commit is flushed to disk before it is answered` };
}
