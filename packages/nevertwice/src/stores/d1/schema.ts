/** Creates and migrates the tables of a D1 database, and checks their version. */
import { NevertwiceError } from "../../core/errors.ts";
import { D1_MIGRATIONS, HAS_TABLES, LIST_INDEX, READ_VERSION, VERSION } from "../d1-sql.ts";
import { type BatchRunner, type BoundStatement, toRows } from "./database.ts";

/** No statement contains a semicolon. */
function splitStatements(migration: string): readonly string[] {
  return migration
    .split(";")
    .map((statement) => statement.trim())
    .filter((statement) => statement !== "");
}

function pending(version: number): readonly string[] {
  return [
    ...D1_MIGRATIONS.slice(version).flatMap(splitStatements),
    `UPDATE nevertwice_store SET schema_version = ${VERSION}`,
    LIST_INDEX,
  ];
}

/** Every statement that `migrate` runs on an empty database. */
export function migrationScript(): string {
  return `${pending(0).join(";\n")};\n`;
}

/** Several Workers may migrate at once: a batch is one transaction, and that of the second one fails as a whole. */
export async function migrate(batches: BatchRunner): Promise<void> {
  const version = await readVersion(batches);
  // Every version keeps up the index, so it has no version of its own.
  if (version === VERSION) return void (await batches.run([[LIST_INDEX]]));
  checkVersion(Math.max(version, VERSION));
  try {
    await batches.run(pending(version).map((statement): BoundStatement => [statement]));
  } catch (error) {
    if ((await readVersion(batches)) !== VERSION) throw error;
  }
}

async function readVersion(batches: BatchRunner): Promise<number> {
  const [tables] = await batches.run([[HAS_TABLES]]);
  if (toRows(tables).length === 0) return 0;
  const [versions] = await batches.run([[READ_VERSION]]);
  return Number(toRows(versions)[0]?.[0]);
}

/** Throws `store-unsafe` if the tables are not those of this version. */
export function checkVersion(version: unknown): void {
  if (version === VERSION) return;
  const isNewer = typeof version === "number" && version > VERSION;
  throw new NevertwiceError(
    "store-unsafe",
    isNewer
      ? `the D1 database was migrated by a newer version of nevertwice (schema ${version}; this version knows ${VERSION}); upgrade this Worker.`
      : `the tables in D1 are not those of this version (schema ${version ?? "unknown"}; needed is ${VERSION}): call migrate() once.`,
  );
}
