/** The statements of our SQLite store by hand, in this thread: one transaction for all calls of one turn of the event loop. */
import { DatabaseSync } from "@photostructure/sqlite";
import { BEGIN, COMMIT, filePragmas } from "../../packages/nevertwice/build/stores/sqlite/client.js";
import {
  FIND,
  INSERT,
  KEEP_FENCE,
  LAST_FENCE,
  SCHEMA,
  UPDATE,
} from "../../packages/nevertwice/build/stores/sqlite-sql.js";
import { grouped, LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

export async function create({ target, hasFingerprint }) {
  const database = new DatabaseSync(target.file);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(filePragmas("full"));
  for (const migration of SCHEMA.migrations) database.exec(migration);
  for (const [table, columns] of Object.entries(SCHEMA.additions))
    for (const [name, type] of columns) database.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${type}`);
  const [begin, commit, find, insert, update, lastFence, keepFence] = [
    BEGIN,
    COMMIT,
    FIND,
    INSERT,
    UPDATE,
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
    const leaseEndsAt = now + LEASE_MS;
    const keptUntil = leaseEndsAt + RETENTION_MS;
    const purgeAt = keptUntil + RETENTION_MS / 32;
    const kept = [
      "pending",
      token,
      0,
      fence,
      1,
      0,
      0,
      now,
      LEASE_MS,
      leaseEndsAt,
      RETENTION_MS,
      keptUntil,
      null,
    ];
    const text = JSON.stringify([namespace, scope, operation, key]);
    insert.run(Buffer.from(id, "hex"), purgeAt, ...kept, fingerprint ?? null, text, null);
  }

  function complete({ token, outcome }, row, now) {
    if (row?.token !== token) return false;
    const attempt = [
      row.fence,
      row.number,
      row.hold,
      row.took_over,
      row.claimed_at,
      row.lease_ms,
      row.lease_ends_at,
    ];
    const kept = ["completed", token, row.spent, ...attempt, RETENTION_MS, now + RETENTION_MS, now];
    update.run(...kept, row.fingerprint, outcome, row.rowid);
    return true;
  }

  return {
    run: rawLoop({ claim: ask, complete: ask, hasFingerprint }),
    close: async () => database.close(),
  };
}
