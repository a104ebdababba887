/** Which database a store is given: a file to open in a thread of its own, or an open connection. */
import { resolve } from "node:path";
import { type Clock, systemClock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { type Check, checkOptions, isBoolean, isClock, isText, oneOf } from "../../core/policy.ts";
import type { SqliteDatabase } from "./driver.ts";
import type { FileSettings } from "./file.ts";

export interface SqliteFileOptions {
  /**
   * Where the file is or shall be; its folder must exist. Opened by the first call, which is told if it fails. Other
   * processes may open it with any SQLite, this one with the same copy alone: two in one process do not see each other's locks.
   */
  readonly file: string;
  /** `full` (default): what was answered survives a power loss. `normal`: the last commits may not; a crash loses none. */
  readonly synchronous?: "full" | "normal";
  /** This process alone uses the file, and others are locked out of it. Needed below SQLite 3.51.3. Default false. */
  readonly exclusive?: boolean;
}

export interface SqliteDatabaseOptions {
  /** An open connection: `DatabaseSync` of `node:sqlite` or `@photostructure/sqlite`, or better-sqlite3. */
  readonly database: SqliteDatabase;
  /** Judges what is past its time; default: the system's. Everybody who shares the file needs the same. */
  readonly clock?: Clock;
}

export type Source =
  | { readonly settings: FileSettings }
  | { readonly database: SqliteDatabase; readonly clock: Clock };

/** Fails with `options-invalid`. `inMemory` is what to use instead of a file called `:memory:`. */
export function sourceOf(options: SqliteFileOptions | SqliteDatabaseOptions, inMemory: string): Source {
  if (typeof options === "object" && options !== null && "database" in options) {
    checkOptions(options, { database: isDatabase, clock: isClock });
    const { database, clock = systemClock } = options;
    return { database, clock };
  }
  const isFile: Check = (name, value) => {
    isText(name, value);
    if (value === ":memory:") throw invalid(`${name} must name a file; ${inMemory}.`);
  };
  checkOptions(options, { file: isFile, synchronous: oneOf("full", "normal"), exclusive: isBoolean });
  isFile("file", options.file);
  const { file, synchronous = "full", exclusive = false } = options;
  return { settings: { file: resolve(file), synchronous, exclusive } };
}

const isDatabase: Check = (name, value) => {
  const { exec, prepare } = (value ?? {}) as Partial<SqliteDatabase>;
  if (typeof exec !== "function" || typeof prepare !== "function")
    throw invalid(`${name} must be an open connection with exec() and prepare().`);
};

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
