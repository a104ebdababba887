/** Assets in Postgres, written so that the same write twice is one: an upsert, and a write that names the version it replaces. */
import { NevertwiceError } from "nevertwice";
import { placeOf } from "./event-place.js";

/**
 * @typedef {{ id: string, facility: string, state: string, load: number }} Asset
 * @typedef {import("./event-place.js").Cause} Cause
 */

/** `sequence`, `occurred_at` and `event` are of the latest upsert; `applied` has the events of all versioned writes. */
export const TABLE = `CREATE TABLE assets (
  id text PRIMARY KEY,
  facility text NOT NULL,
  state text NOT NULL,
  load double precision NOT NULL,
  version integer NOT NULL,
  sequence bigint NOT NULL,
  occurred_at timestamptz NOT NULL,
  event text COLLATE "C" NOT NULL,
  applied text[] NOT NULL DEFAULT '{}'
)`;

/** @param {import("pg").Pool} pool */
export function assetsIn(pool) {
  /**
   * @param {string} id
   * @param {Cause} cause
   * @returns {Promise<number | undefined>} the version, if the event is among those that were applied
   */
  async function appliedAt(id, cause) {
    const select = "SELECT version FROM assets WHERE id = $1 AND $2 = ANY (applied)";
    const { rows } = await pool.query(select, [id, cause.id]);
    return rows[0]?.version;
  }

  return {
    /**
     * Creates or replaces. The row says which event it is from, and only a later one replaces it: so a repetition changes
     * nothing, and an event that comes late does not undo a later one.
     *
     * @param {Asset} asset
     * @param {Cause} cause
     */
    async upsert({ id, facility, state, load }, cause) {
      const { sequence, at, event } = placeOf(cause);
      const { rowCount } = await pool.query(
        `INSERT INTO assets VALUES ($1, $2, $3, $4, 1, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET
           facility = $2, state = $3, load = $4, version = assets.version + 1,
           sequence = $5, occurred_at = $6, event = $7
         WHERE assets.event <> $7
           AND (assets.sequence, assets.occurred_at, assets.event) < ($5, $6, $7)`,
        [id, facility, state, load, sequence, new Date(at), event],
      );
      return rowCount === 1;
    },

    /**
     * Replaces version `expected` and no other; 0 creates. Answers the new version, or the present one if this event was
     * applied before: what adds up must not be added again. Which upsert is the latest does not change by it.
     *
     * @param {Asset} asset
     * @param {number} expected
     * @param {Cause} cause
     */
    async write({ id, facility, state, load }, expected, cause) {
      const { sequence, at, event } = placeOf(cause);
      const values = [id, facility, state, load, expected, event];
      const { rowCount } =
        expected === 0
          ? await pool.query(
              `INSERT INTO assets VALUES ($1, $2, $3, $4, $5::integer + 1, $7, $8, $6, ARRAY[$6::text])
               ON CONFLICT DO NOTHING`,
              [...values, sequence, new Date(at)],
            )
          : await pool.query(
              `UPDATE assets SET facility = $2, state = $3, load = $4, version = $5::integer + 1,
                 applied = array_append(applied, $6::text)
               WHERE id = $1 AND version = $5 AND $6 <> ALL (applied)`,
              values,
            );
      const version = rowCount === 1 ? expected + 1 : await appliedAt(id, cause);
      if (version !== undefined) return version;
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
