/** A process that opens a read transaction on an SQLite file, and keeps it open until it is killed. */
import { DatabaseSync } from "@photostructure/sqlite";

/** @type {{ file: string }} */
const { file } = JSON.parse(process.argv[2] ?? "{}");
const database = new DatabaseSync(file, { readOnly: true });
database.exec("BEGIN");
database.prepare("SELECT count(*) FROM nevertwice_records").get();
// The channel to the test keeps the process alive.
process.on("message", () => {});
process.send?.({ kind: "ready" });
