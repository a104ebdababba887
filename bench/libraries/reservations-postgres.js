/** Holds and confirmations in Postgres by hand: one transaction for each call. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { answerAgain, digestOf, refusal, WINDOW_MS, whyNotConfirmed } from "./reservations-by-hand.js";

const TABLES = `
CREATE TABLE keys (
  key text PRIMARY KEY, digest text NOT NULL, answer text, window_ends_at timestamptz NOT NULL
);
CREATE INDEX ON keys (window_ends_at);
CREATE TABLE resources (
  name text PRIMARY KEY, capacity integer NOT NULL, taken integer NOT NULL CHECK (taken BETWEEN 0 AND capacity)
);
CREATE TABLE commitments (
  id uuid PRIMARY KEY, resource text NOT NULL, requester text NOT NULL, units integer NOT NULL, state text NOT NULL,
  placed_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, ended_at timestamptz
);
CREATE INDEX ON commitments (resource, expires_at) WHERE state = 'held';`;

/** Changes nothing if the key was used within its window; waits for a transaction that is using it now. */
const RECORD_KEY = {
  name: "record-key",
  text: `INSERT INTO keys VALUES ($1, $2, NULL, clock_timestamp() + $3 * interval '1 millisecond')
    ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, answer = NULL, window_ends_at = excluded.window_ends_at
    WHERE keys.window_ends_at <= clock_timestamp()`,
};
const FIND_KEY = { name: "find-key", text: "SELECT digest, answer FROM keys WHERE key = $1" };
const KEEP_ANSWER = { name: "keep-answer", text: "UPDATE keys SET answer = $2 WHERE key = $1" };
/** Locks the resource's row, and takes the units if that many are free. A resource that was not declared has one unit. */
const TAKE = {
  name: "take",
  text: `INSERT INTO resources VALUES ($1, 1, $2)
    ON CONFLICT (name) DO UPDATE SET taken = resources.taken + excluded.taken
    WHERE resources.taken + excluded.taken <= resources.capacity`,
};
const EXPIRE = {
  name: "expire",
  text: `WITH ended AS (
      UPDATE commitments SET state = 'expired', ended_at = clock_timestamp()
      WHERE resource = $1 AND state = 'held' AND expires_at <= clock_timestamp() RETURNING units
    )
    UPDATE resources SET taken = taken - (SELECT coalesce(sum(units), 0) FROM ended) WHERE name = $1`,
};
const PLACE = {
  name: "target",
  text: `INSERT INTO commitments
    SELECT $1, $2, $3, $4, 'held', now, now + $5 * interval '1 millisecond', NULL FROM clock_timestamp() AS now`,
};
const CONFIRM = {
  name: "confirm",
  text: `UPDATE commitments SET state = 'confirmed', ended_at = clock_timestamp()
    WHERE id = $1 AND state = 'held' AND expires_at > clock_timestamp()`,
};
const FIND = { name: "find", text: "SELECT state FROM commitments WHERE id = $1" };
const DECLARE = "INSERT INTO resources VALUES ($1, $2, 0)";

export async function create({ target: { url } }) {
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  await pool.query(TABLES);

  async function once({ key, ...parameters }, action, decide) {
    const digest = digestOf(action, parameters);
    const client = await pool.connect();
    const ask = (statement, ...values) => client.query({ ...statement, values });
    try {
      await client.query("BEGIN");
      const { rowCount: isNew } = await ask(RECORD_KEY, key, digest, WINDOW_MS);
      if (!isNew) {
        const { rows } = await ask(FIND_KEY, key);
        await client.query("ROLLBACK");
        return answerAgain(rows[0], digest);
      }
      const answer = await decide(ask, parameters);
      await ask(KEEP_ANSWER, key, JSON.stringify(answer));
      await client.query("COMMIT");
      return answer;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  }

  async function placeHold(ask, { resource, requester, durationMs, units = 1 }) {
    let { rowCount: isTaken } = await ask(TAKE, resource, units);
    if (!isTaken) {
      await ask(EXPIRE, resource);
      isTaken = (await ask(TAKE, resource, units)).rowCount;
    }
    if (!isTaken) return refusal("resource-unavailable");
    const id = randomUUID();
    await ask(PLACE, id, resource, requester, units, durationMs);
    return { ok: true, id };
  }

  async function confirm(ask, { id }) {
    const { rowCount: isConfirmed } = await ask(CONFIRM, id);
    return isConfirmed ? { ok: true } : whyNotConfirmed((await ask(FIND, id)).rows[0]);
  }

  return {
    declare: (resource, capacity) => pool.query(DECLARE, [resource, capacity]),
    placeHold: (request) => once(request, "placeHold", placeHold),
    confirm: (request) => once(request, "confirm", confirm),
    close: () => pool.end(),
  };
}
