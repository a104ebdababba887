/**
 * One run in its own process. It is forked with a plan as its argument and sends one message back. The benchmark fails unless
 * every key was written exactly once, or twice without keys, and every call returned its value.
 */
import { equal } from "node:assert/strict";
import pg from "pg";
import { openDatabase } from "../databases/postgres.js";

const { url, library, keys, warmup, inFlight, connections } = JSON.parse(process.argv[2]);
const { isKeyed, open } = await import(`../libraries/${library}.js`);

await run(warmup);
process.send(await run(keys));

async function run(count) {
  const target = await openDatabase({ url });
  const check = new pg.Pool({ connectionString: url, max: 1 });
  await check.query("CREATE TABLE ledger (key text NOT NULL, amount int NOT NULL)");
  const { run: pay, close } = await open(url, connections);
  const perSecond = {};
  for (const phase of ["first", "again"]) {
    perSecond[phase] = await time(count, (key) =>
      pay(key, async (client) => {
        await client.query("INSERT INTO ledger VALUES ($1, 42)", [key]);
        return { paid: 42 };
      }),
    );
    const { rows } = await check.query("SELECT count(*)::int AS count FROM ledger");
    equal(rows[0].count, isKeyed || phase === "first" ? count : 2 * count);
  }
  await close();
  await check.end();
  await target.close();
  return { perSecond };
}

/** Transactions per second. */
async function time(count, pay) {
  global.gc();
  let taken = 0;
  const startedAt = performance.now();
  async function lane() {
    while (taken < count) {
      const { paid } = await pay(`order-${taken++}`);
      equal(paid, 42);
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane));
  return count / ((performance.now() - startedAt) / 1_000);
}
