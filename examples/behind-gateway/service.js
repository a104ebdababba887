/**
 * A service behind the gateway that tells a repeat from a new attempt. A proxy between the gateway and the service may send
 * one request twice, even to two servers. So the effect and a row for (key, fence) commit together in the database that all
 * servers share, and a repeat gets the first answer.
 */
import { createServer } from "node:http";

/** @param {import("pg").Pool} pool */
export async function createTables(pool) {
  await pool.query(`
    CREATE TABLE IF NOT EXISTS gateway_attempts (
      key text NOT NULL, fence bigint NOT NULL, status int, body text, PRIMARY KEY (key, fence)
    );
    CREATE TABLE IF NOT EXISTS payments (id bigserial PRIMARY KEY, amount int NOT NULL)`);
}

/**
 * @param {import("pg").PoolClient} client
 * @param {{ key: string, fence: string, amount: number }} attempt
 */
async function pay(client, { key, fence, amount }) {
  // A repeat waits here until the first request has committed or failed.
  const { rowCount } = await client.query(
    "INSERT INTO gateway_attempts (key, fence) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    [key, fence],
  );
  if (rowCount === 0) {
    const { rows } = await client.query(
      "SELECT status, body FROM gateway_attempts WHERE key = $1 AND fence = $2",
      [key, fence],
    );
    return rows[0];
  }
  const { rows } = await client.query("INSERT INTO payments (amount) VALUES ($1) RETURNING id", [amount]);
  const answer = { status: 201, body: JSON.stringify({ id: rows[0].id, amount }) };
  await client.query("UPDATE gateway_attempts SET status = $3, body = $4 WHERE key = $1 AND fence = $2", [
    key,
    fence,
    answer.status,
    answer.body,
  ]);
  return answer;
}

/** @param {import("pg").Pool} pool */
export function createService(pool) {
  return createServer(async (req, res) => {
    let text = "";
    for await (const chunk of req) text += chunk;
    const { "nevertwice-key": key, "nevertwice-fence": fence } = req.headers;
    if (typeof key !== "string" || typeof fence !== "string") {
      res.writeHead(400).end();
      return;
    }
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const answer = await pay(client, { key, fence, amount: JSON.parse(text).amount });
      await client.query("COMMIT");
      res.writeHead(answer.status, { "Content-Type": "application/json" }).end(answer.body);
      client.release();
    } catch (error) {
      // The connection may be in the middle of its transaction, so it is closed and not used again.
      client.release(true);
      console.error(error);
      res.writeHead(500).end();
    }
  });
}
