/** The statements of our SQLite store by hand, in this thread: one transaction for all calls of one turn of the event loop. */
import { DatabaseSync } from "@photostructure/sqlite";
import { BEGIN, COMMIT, filePragmas } from "../../packages/nevertwice/build/stores/sqlite/client.js";
import { migrate } from "../../packages/nevertwice/build/stores/sqlite/schema.js";
import {
  ALL_COLUMNS,
  COMPLETE,
  FIND,
  INSERT,
  KEEP_FENCE,
  LAST_FENCE,
  SCHEMA,
} from "../../packages/nevertwice/build/stores/sqlite-sql.js";
import { grouped, LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

export async function create({ target, hasFingerprint }) {
  const database = new DatabaseSync(target.file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(filePragmas("full"));
  migrate(database, SCHEMA);
  const [begin, commit, find, insert, settle, lastFence, keepFence] = [
    BEGIN,
    COMMIT,
    FIND,
    INSERT,
    COMPLETE,
    LAST_FENCE,
    KEEP_FENCE,
  ].map((text) => database.prepare(text));

  /** Claims and completions alike. A transaction that only reads takes no lock and flushes nothing. */
  const ask = grouped(async (calls) => {
    begin.run();
    const now = Date.now();
    let fence = 0;
    const answers = calls.map((call) => {
      const row = find.get(Buffer.from(call.id, "hex"));
      if (call.outcome !== undefined) return complete(call, row, now);
      if (row !== undefined) return judge(call, row);
      fence = Math.max((fence || lastFence.get().last_fence) + 1, now * 1_000);
      claim(call, fence, now);
      return { status: "new" };
    });
    if (fence > 0) keepFence.run(fence);
    commit.run();
    return answers;
  });

  function judge({ fingerprint }, row) {
    if (fingerprint !== undefined && row.fingerprint !== fingerprint) return { status: "conflict" };
    return { status: row.state, outcome: row.outcome };
  }

  function claim({ id, token, fingerprint, parts }, fence, now) {
    const { namespace, scope, operation, key } = parts;
    const lease_ends_at = now + LEASE_MS;
    const kept_until = lease_ends_at + RETENTION_MS;
    const row = {
      purge_at: kept_until + RETENTION_MS / 32,
      claimed_at: now,
      state: "pending",
      token,
      spent: 0,
      fence,
      number: 1,
      hold: 0,
      took_over: 0,
      lease_ms: LEASE_MS,
      lease_ends_at,
      retention_ms: RETENTION_MS,
      kept_until,
      fingerprint,
      parts: JSON.stringify([namespace, scope, operation, key]),
    };
    insert.run(Buffer.from(id, "hex"), ...ALL_COLUMNS.map((column) => row[column] ?? null));
  }

  function complete({ token, outcome }, row, now) {
    if (row?.token !== token) return false;
    settle.run("completed", RETENTION_MS, now + RETENTION_MS, now, outcome, row.rowid);
    return true;
  }

  return {
    run: rawLoop({ claim: ask, complete: ask, hasFingerprint }),
    close: async () => database.close(),
  };
}
