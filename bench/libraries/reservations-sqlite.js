/** Holds and confirmations in SQLite by hand, in this thread: one transaction for each call. */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { answerAgain, digestOf, refusal, WINDOW_MS, whyNotConfirmed } from "./reservations-by-hand.js";

const TABLES = `
CREATE TABLE keys (key TEXT PRIMARY KEY, digest TEXT NOT NULL, answer TEXT, window_ends_at INTEGER NOT NULL) STRICT;
CREATE INDEX keys_by_end ON keys (window_ends_at);
CREATE TABLE resources (
  name TEXT PRIMARY KEY, capacity INTEGER NOT NULL, taken INTEGER NOT NULL CHECK (taken BETWEEN 0 AND capacity)
) STRICT;
CREATE TABLE commitments (
  id TEXT PRIMARY KEY, resource TEXT NOT NULL, requester TEXT NOT NULL, units INTEGER NOT NULL, state TEXT NOT NULL,
  placed_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, ended_at INTEGER
) STRICT;
CREATE INDEX held ON commitments (resource, expires_at) WHERE state = 'held';`;

const STATEMENTS = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  rollback: "ROLLBACK",
  /** Changes nothing if the key was used within its window. */
  recordKey: `INSERT INTO keys VALUES (:key, :digest, NULL, :now + ${WINDOW_MS})
    ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, answer = NULL, window_ends_at = excluded.window_ends_at
    WHERE keys.window_ends_at <= :now`,
  findKey: "SELECT digest, answer FROM keys WHERE key = ?",
  keepAnswer: "UPDATE keys SET answer = ? WHERE key = ?",
  /** Takes the units if that many are free. A resource that was not declared has one unit. */
  take: `INSERT INTO resources VALUES (?, 1, ?)
    ON CONFLICT (name) DO UPDATE SET taken = taken + excluded.taken WHERE taken + excluded.taken <= capacity`,
  expire: `UPDATE commitments SET state = 'expired', ended_at = :now
    WHERE resource = :resource AND state = 'held' AND expires_at <= :now RETURNING units`,
  giveBack: "UPDATE resources SET taken = taken - ? WHERE name = ?",
  target: "INSERT INTO commitments VALUES (?, ?, ?, ?, 'held', ?, ?, NULL)",
  confirm: `UPDATE commitments SET state = 'confirmed', ended_at = :now
    WHERE id = :id AND state = 'held' AND expires_at > :now`,
  find: "SELECT state FROM commitments WHERE id = ?",
  declare: "INSERT INTO resources VALUES (?, ?, 0)",
};

export async function create({ target }) {
  const database = new DatabaseSync(target.file ?? ":memory:");
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec(TABLES);
  const sql = Object.fromEntries(
    Object.entries(STATEMENTS).map(([name, text]) => [name, database.prepare(text)]),
  );

  function once({ key, ...parameters }, action, decide) {
    const digest = digestOf(action, parameters);
    sql.begin.run();
    try {
      const now = Date.now();
      if (sql.recordKey.run({ key, digest, now }).changes === 0) {
        const kept = sql.findKey.get(key);
        sql.rollback.run();
        return answerAgain(kept, digest);
      }
      const answer = decide(parameters, now);
      sql.keepAnswer.run(JSON.stringify(answer), key);
      sql.commit.run();
      return answer;
    } catch (error) {
      sql.rollback.run();
      throw error;
    }
  }

  function placeHold({ resource, requester, durationMs, units = 1 }, now) {
    if (!takes(resource, units)) {
      for (const ended of sql.expire.all({ resource, now })) sql.giveBack.run(ended.units, resource);
      if (!takes(resource, units)) return refusal("resource-unavailable");
    }
    const id = randomUUID();
    sql.target.run(id, resource, requester, units, now, now + durationMs);
    return { ok: true, id };
  }

  function takes(resource, units) {
    return sql.take.run(resource, units).changes > 0;
  }

  function confirm({ id }, now) {
    return sql.confirm.run({ id, now }).changes > 0 ? { ok: true } : whyNotConfirmed(sql.find.get(id));
  }

  return {
    declare: async (resource, capacity) => sql.declare.run(resource, capacity),
    placeHold: async (request) => once(request, "placeHold", placeHold),
    confirm: async (request) => once(request, "confirm", confirm),
    close: async () => database.close(),
  };
}
