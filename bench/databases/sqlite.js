/** A new SQLite file in its own folder. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";

export async function openDatabase() {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-bench-"));
  const file = join(folder, "records.db");
  return {
    file,
    storeUrl: `sqlite:${file}`,
    /** Pages that are still in the WAL count as if they were in the file. */
    async bytes() {
      const database = new DatabaseSync(file);
      const read = (name) => Number(database.prepare(`PRAGMA ${name}`).get()[name]);
      const bytes = read("page_count") * read("page_size");
      database.close();
      return bytes;
    },
    close: () => rm(folder, { recursive: true }),
  };
}
