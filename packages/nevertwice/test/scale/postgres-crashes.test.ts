/**
 * Tests that no transaction is lost or runs twice when Postgres is killed. The claims of transactions commit without a flush, so
 * a crash loses some of them, but never the claim of a transaction that was committed. Needs the build.
 */
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext, test } from "vitest";
import { migrationSql } from "../../src/stores/postgres.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { startPostgres } from "../services/postgres.ts";
import { startFor } from "../services/services.ts";
import { query } from "../stores/postgres/database.ts";
import { plant } from "../testing/plant.ts";
import { createAsking, openDoor } from "./asking.ts";
import { judgeLedger, type Row } from "./effects-referee.ts";
import { count, reportOn, tellCounts } from "./figures.ts";
import { restart } from "./restarting.ts";
import { EFFECTS_TIMEOUT_MS, sizeOf } from "./sizes.ts";
import { DRIVERS } from "./workers/effects/transaction.js";
import type { Opened } from "./workers/effects.js";

const LIBRARY = new URL("../../dist", import.meta.url).pathname;
const SEED = Number(process.env.NEVERTWICE_SEED ?? 1);
/** Each guard has its own pool, and runs so many transactions at once. */
const GUARDS = 4;
const LANES = 3;
const LIMITS = { transactionMs: 1_000, storeTimeoutMs: 500, waitMs: 1_000 };
/** How long the server runs between two crashes, at most. */
const UPTIME_MS = 400;
/** Until then the claim of a transaction that a crash has ended may still be pending. */
const LAPSED_MS = 2_200;
const PAUSE_MS = 20;
const TRIES = 500;
/** On a busy machine few transactions are committed between two crashes, and none may be lost. */
const BUG_ROUNDS = 4;

async function crash(context: TestContext, { crashes, library }: { crashes: number; library: string }) {
  // What is not flushed stays in the memory of the server for as long as possible, and is lost with it.
  const settings = { fsync: "on", wal_writer_delay: "10s" };
  const server = await startFor(context, () => startPostgres({ settings, onDisk: true }));
  const { url } = server;
  await query(url, `${migrationSql()}; CREATE TABLE ledger (key text NOT NULL, value text NOT NULL)`);
  const guards = await Promise.all(
    Array.from({ length: GUARDS }, () => openDoor(DRIVERS.pg as never, url, library, LIMITS)),
  );
  context.onTestFinished(async () => void (await Promise.all(guards.map((guard) => guard.close()))));
  const random = seededRandom(SEED);
  const asking = createAsking();
  const keys: string[] = [];
  let isOver = false;

  /** Keys that are not done yet, and when to ask again. */
  const left: { readonly key: string; readonly dueAt: number }[] = [];

  async function askNext(guard: Opened): Promise<void> {
    const isDue = (left[0]?.dueAt ?? Number.POSITIVE_INFINITY) < performance.now();
    const key = isDue ? (left.shift()?.key as string) : `key ${keys.length}`;
    if (!isDue) keys.push(key);
    if (await asking.ask(guard, key)) return;
    left.push({ key, dueAt: performance.now() + LAPSED_MS });
    await sleep(PAUSE_MS);
  }

  const lanes = guards.flatMap((guard) =>
    Array.from({ length: LANES }, async () => {
      while (!isOver) await askNext(guard);
      for (let key = left.shift()?.key; key !== undefined; key = left.shift()?.key)
        for (let tries = 0; !(await asking.ask(guard, key)) && tries < TRIES; tries++) await sleep(PAUSE_MS);
    }),
  );
  for (let crashed = 0; crashed < crashes; crashed++) {
    await sleep(random.between(10, UPTIME_MS));
    await server.kill();
    await restart(server);
  }
  isOver = true;
  await Promise.all(lanes);
  const rows = await query<Row>(url, "SELECT * FROM ledger");
  const problems = judgeLedger({ ...asking, rows, keys, deliveries: [] });
  return { keys: keys.length, answers: asking.answers(), problems };
}

test("a transaction happens exactly once, and stays, when Postgres is killed", {
  timeout: EFFECTS_TIMEOUT_MS,
}, async (context) => {
  const { crashes } = sizeOf("postgres-crashes");
  const startedAt = performance.now();
  const { keys, answers, problems } = await crash(context, { crashes, library: LIBRARY });
  const seconds = (performance.now() - startedAt) / 1_000;
  reportOn("guard.transaction, pg on Postgres", {
    trial: "Postgres killed while claims commit without a flush",
    figures: `${count(crashes)} crashes, ${count(keys)} keys, ${problems.length} problems; callers were told ${tellCounts(answers)}; ${count(seconds)} s`,
  });
  expect(problems.slice(0, 20), `seed ${SEED}`).toEqual([]);
});

test("a planted bug is reported: the transaction itself commits without a flush", async (context) => {
  const library = await plant({
    name: "the transaction itself commits without a flush",
    file: "stores/postgres/transaction-sql.js",
    find: "IS NOT NULL)\n    FOR UPDATE",
    replace: "IS NOT NULL AND set_config('synchronous_commit', 'off', true) IS NOT NULL)\n    FOR UPDATE",
  });
  context.onTestFinished(() => rm(library, { recursive: true, force: true }));
  let reports: readonly string[] = [];
  for (let round = 0; round < BUG_ROUNDS && reports.length === 0; round++) {
    const { problems } = await crash(context, { crashes: 4, library });
    reports = problems.filter((problem) => problem.startsWith("lost") || problem.startsWith("wrong"));
  }
  expect(reports).not.toEqual([]);
});
