/** A `pg` Pool whose process kills itself right after COMMIT was answered, if it is told to. */
import pg from "pg";

/**
 * @param {string} url
 * @param {boolean} isDying
 */
export function dyingPool(url, isDying) {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  if (!isDying) return pool;
  const connect = pool.connect.bind(pool);
  return Object.assign(pool, {
    async connect() {
      const client = await connect();
      const query = client.query.bind(client);
      return Object.assign(client, {
        /** @param {string} text @param {unknown[]} [values] */
        async query(text, values) {
          const answer = await query(text, values);
          if (/(^|;)COMMIT$/.test(text)) process.kill(process.pid, "SIGKILL");
          return answer;
        },
      });
    },
  });
}
