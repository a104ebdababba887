/** Finds the SQLite library for files that a store opens, in its worker thread and beside it. */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { importModule } from "../../platform/import-module.ts";
import { importDriver, locateDriver } from "../open/driver.ts";
import { CACHE_SIZE, lookUp, type OwnDatabase } from "./client.ts";
import { isSafeToShare, VERSION_SQL } from "./durability.ts";

const BUILT_IN = "node:sqlite";
const PACKAGE: string = "@photostructure/sqlite";

interface SqliteModule {
  readonly DatabaseSync: new (file: string, options?: { readonly readOnly: boolean }) => OwnDatabase;
}

export interface SqliteDriver {
  readonly version: string;
  /** From where another thread can load the same copy of SQLite. Undefined if that is not known. */
  readonly location: string | undefined;
  open(file: string): OwnDatabase;
}

/**
 * The SQLite built into the runtime, or else the npm package with the same interface; the first that is new enough. With
 * `isExclusive` the file has a single connection, so every version is safe. Throws `driver-missing` or `store-unsafe`, with
 * what to install.
 */
export async function findDriver(isExclusive: boolean): Promise<SqliteDriver> {
  const tooOld: string[] = [];
  for (const load of [loadBuiltIn, loadPackage]) {
    const driver = await load();
    if (driver === undefined) continue;
    if (isExclusive || isSafeToShare(driver.version)) return driver;
    tooOld.push(driver.version);
  }
  if (tooOld.length === 0)
    throw new NevertwiceError(
      "driver-missing",
      `this runtime has no built-in SQLite (node:sqlite): npm install ${PACKAGE}`,
    );
  throw new NevertwiceError(
    "store-unsafe",
    `SQLite ${tooOld.join(" and ")} can corrupt a file that several connections share. Use 3.51.3 or later (a newer Node, or npm install ${PACKAGE}), or set exclusive: true if only one process opens the file.`,
  );
}

async function loadBuiltIn(): Promise<SqliteDriver | undefined> {
  return toDriver(builtInModule(), BUILT_IN);
}

function builtInModule(): SqliteModule | undefined {
  return process.getBuiltinModule?.(BUILT_IN) as unknown as SqliteModule | undefined;
}

async function loadPackage(): Promise<SqliteDriver | undefined> {
  try {
    const module = await importDriver<SqliteModule>(PACKAGE, PACKAGE, "a SQLite file");
    return toDriver(module, locateDriver(PACKAGE));
  } catch (error) {
    if (isNevertwiceError(error, "driver-missing")) return undefined;
    throw notLoadable(error);
  }
}

function notLoadable(cause: unknown): NevertwiceError {
  return new NevertwiceError("driver-missing", `${PACKAGE} is installed, but cannot be loaded.`, { cause });
}

function toDriver(module: SqliteModule | undefined, location: string | undefined): SqliteDriver | undefined {
  if (module === undefined) return undefined;
  const { DatabaseSync } = module;
  const database = new DatabaseSync(":memory:");
  const version = String(lookUp(database, VERSION_SQL));
  database.close();
  return { version, location, open: (file) => new DatabaseSync(file) };
}

/**
 * Opens a second connection that cannot write, with the copy of SQLite at `location`. Closing a connection of another copy
 * would drop the locks that the first copy holds on the file for the whole process.
 *
 * The file is attached to a database in memory. Some versions of the package keep a closed connection open, with its lock on
 * the file, until the garbage collector finds its statements; detaching a file always closes it.
 */
export async function openReadOnly(location: string, file: string): Promise<OwnDatabase> {
  const module = location === BUILT_IN ? builtInModule() : await importModule<SqliteModule>(location);
  if (module === undefined) throw new Error(`${location} cannot be loaded in this thread.`);
  const database = new module.DatabaseSync(":memory:", { readOnly: true });
  database.exec(`ATTACH '${file.replaceAll("'", "''")}' AS attached`);
  database.exec(`PRAGMA attached.cache_size = ${CACHE_SIZE}`);
  return {
    exec: (text) => database.exec(text),
    prepare: (text) => database.prepare(text),
    close() {
      database.exec("DETACH attached");
      database.close();
    },
  };
}
