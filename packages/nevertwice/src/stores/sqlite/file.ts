/** Opens the store's own connection to a file, with the settings that its promises rest on. */
import { NevertwiceError } from "../../core/errors.ts";
import { lookUp, type OwnDatabase } from "./driver.ts";
import type { Driver } from "./drivers.ts";
import { toStoreError } from "./failures.ts";
import { patiently } from "./patience.ts";
import * as sql from "./session-sql.ts";

export interface FileSettings {
  readonly file: string;
  readonly synchronous: "full" | "normal";
  readonly exclusive: boolean;
}

export function openFile(driver: Driver, settings: FileSettings): OwnDatabase {
  let database: OwnDatabase | undefined;
  try {
    const opened = driver.open(settings.file);
    database = opened;
    // Processes that start at once collide here.
    patiently(() => setUp(opened, settings));
    return opened;
  } catch (error) {
    database?.close();
    throw toStoreError(error);
  }
}

function setUp(database: OwnDatabase, { synchronous, exclusive }: FileSettings): void {
  database.exec(sql.WAIT_FOR_NO_LOCK);
  if (exclusive) database.exec(sql.LOCK_FOR_ONE);
  const mode = lookUp(database, sql.USE_WAL);
  if (mode !== "wal")
    throw new NevertwiceError(
      "store-unsafe",
      `the file cannot be used with a write-ahead log (journal_mode stays ${mode}); put it on a disk of this machine.`,
    );
  database.exec(sql.settle(synchronous));
}
