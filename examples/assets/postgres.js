/** Assets in Postgres, written so that the same write twice is one: an upsert, and a write that names the version it replaces. */
import { NevertwiceError } from "nevertwice";

/**
 * @typedef {{ id: string, facility: string, state: string, load: number }} Asset
 * @typedef {{ id: string, occurredAt: string }} Cause the event that a write is for
 */

export const TABLE = `CREATE TABLE assets (
  id text PRIMARY KEY,
  facility text NOT NULL,
  state text NOT NULL,
  load double precision NOT NULL,
  version integer NOT NULL,
  event text NOT NULL,
  occurred_at timestamptz NOT NULL
)`;

/** @param {import("pg").Pool} pool */
export function assetsIn(pool) {
  return {
    /**
     * Creates or replaces. The time is the event's own and not the clock's, and the row says which event it is from: so a
     * repetition changes nothing, and an event that comes late does not undo a later one.
     *
     * @param {Asset} asset
     * @param {Cause} cause
     */
    async upsert({ id, facility, state, load }, cause) {
      const { rowCount } = await pool.query(
        `INSERT INTO assets VALUES ($1, $2, $3, $4, 1, $5, $6)
         ON CONFLICT (id) DO UPDATE SET
           facility = $2, state = $3, load = $4, version = assets.version + 1, event = $5, occurred_at = $6
         WHERE assets.event <> $5 AND assets.occurred_at <= $6`,
        [id, facility, state, load, cause.id, cause.occurredAt],
      );
      return rowCount === 1;
    },

    /**
     * Replaces version `expected` and no other; 0 creates. Answers the new version.
     *
     * @param {Asset} asset
     * @param {number} expected
     * @param {Cause} cause
     */
    async write({ id, facility, state, load }, expected, cause) {
      const create =
        "INSERT INTO assets VALUES ($1, $2, $3, $4, $5::integer + 1, $6, $7) ON CONFLICT DO NOTHING";
      const replace = `UPDATE assets
        SET facility = $2, state = $3, load = $4, version = $5::integer + 1, event = $6, occurred_at = $7
        WHERE id = $1 AND version = $5`;
      const values = [id, facility, state, load, expected, cause.id, cause.occurredAt];
      const { rowCount } = await pool.query(expected === 0 ? create : replace, values);
      if (rowCount === 1) return expected + 1;
      throw new NevertwiceError(
        "concurrent-modification",
        `asset ${id} is not at version ${expected}: read it again.`,
      );
    },

    /**
     * @param {string} id
     * @returns {Promise<(Asset & { version: number }) | undefined>}
     */
    async read(id) {
      const { rows } = await pool.query(
        "SELECT id, facility, state, load, version FROM assets WHERE id = $1",
        [id],
      );
      return rows[0];
    },
  };
}
