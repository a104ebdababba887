/** The checks of the options by which SQLite is handed in: a file, or an open connection. */
import { resolve } from "node:path";
import { type Clock, systemClock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { type Check, checkOptions, isBoolean, isClock, isText, oneOf } from "../../core/option-checks.ts";
import type { FileSettings, SqliteDatabase, SqliteDatabaseOptions, SqliteFileOptions } from "./client.ts";

export type SqliteSource =
  | { readonly settings: FileSettings }
  | { readonly database: SqliteDatabase; readonly clock: Clock };

/** Throws `options-invalid`. `inMemory` says what to use instead of a file called `:memory:`. */
export function toSource(options: SqliteFileOptions | SqliteDatabaseOptions, inMemory: string): SqliteSource {
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
