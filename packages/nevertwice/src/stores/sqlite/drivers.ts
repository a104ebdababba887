/** Finds a SQLite for files: the one built into the runtime, else a package that answers to the same names. */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { importDriver } from "../open/driver.ts";
import { lookUp, type OwnDatabase } from "./driver.ts";
import * as sql from "./session-sql.ts";
import { isSafeToShare } from "./settings.ts";

const PACKAGE: string = "@photostructure/sqlite";

interface Module {
  readonly DatabaseSync: new (file: string) => OwnDatabase;
}

export interface Driver {
  readonly version: string;
  open(file: string): OwnDatabase;
}

/**
 * The first that is there and new enough. `isExclusive`: the file has one connection, so any version will do. Fails with
 * `driver-missing` or `store-unsafe`, and says what to install.
 */
export async function findDriver(isExclusive: boolean): Promise<Driver> {
  const tooOld: string[] = [];
  for (const load of [builtIn, installed]) {
    const driver = await load();
    if (driver === undefined) continue;
    if (isExclusive || isSafeToShare(driver.version)) return driver;
    tooOld.push(driver.version);
  }
  if (tooOld.length === 0)
    throw new NevertwiceError(
      "driver-missing",
      `this runtime has no SQLite of its own (node:sqlite): npm install ${PACKAGE}`,
    );
  throw new NevertwiceError(
    "store-unsafe",
    `SQLite ${tooOld.join(" and ")} can corrupt a file that several connections share. Use 3.51.3 or later (a newer Node, or npm install ${PACKAGE}), or set exclusive: true if one process alone opens the file.`,
  );
}

async function builtIn(): Promise<Driver | undefined> {
  return toDriver(process.getBuiltinModule?.("node:sqlite") as unknown as Module | undefined);
}

async function installed(): Promise<Driver | undefined> {
  try {
    return toDriver(await importDriver<Module>(PACKAGE, PACKAGE, "a SQLite file"));
  } catch (error) {
    if (isNevertwiceError(error, "driver-missing")) return undefined;
    throw notLoaded(error);
  }
}

function notLoaded(cause: unknown): NevertwiceError {
  return new NevertwiceError("driver-missing", `${PACKAGE} is installed, but cannot be loaded.`, { cause });
}

function toDriver(module: Module | undefined): Driver | undefined {
  if (module === undefined) return undefined;
  const { DatabaseSync } = module;
  const database = new DatabaseSync(":memory:");
  const version = String(lookUp(database, sql.VERSION));
  database.close();
  return { version, open: (file) => new DatabaseSync(file) };
}
