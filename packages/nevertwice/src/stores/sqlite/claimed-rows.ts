/**
 * The rows of pending records that this connection has written, so that completing a record does not read its row again.
 * They are what the file contains as long as no other connection has committed anything: SQLite tells that by its data
 * version. The connection must be used for nothing else, because its own writes do not change that version.
 */
import type { StoredRow } from "./record-row.ts";

/** Twice as many as a message has calls. A row that is not here is read. */
const MAX_ROWS = 1_000;

export interface ClaimedRows {
  /** To be called at the start of each transaction. */
  begin(dataVersion: number): void;
  get(id: string): StoredRow | undefined;
  /** Keeps the row, if its record is pending. */
  add(row: StoredRow): void;
  /** To be called before the row changes. */
  delete(id: string): void;
  clear(): void;
}

export function createClaimedRows(): ClaimedRows {
  const rows = new Map<string, StoredRow>();
  let version: number | undefined;
  return {
    begin(dataVersion) {
      if (dataVersion !== version) rows.clear();
      version = dataVersion;
    },
    get: (id) => rows.get(id),
    add(row) {
      const { id, state } = row.kept;
      if (state !== "pending") return;
      if (rows.size === MAX_ROWS) rows.delete(rows.keys().next().value as string);
      rows.set(id, row);
    },
    delete: (id) => void rows.delete(id),
    clear: () => rows.clear(),
  };
}
