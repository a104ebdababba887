/** Tests random histories and races on real databases whose clocks move only when the test moves them. */

import { DatabaseSync } from "@photostructure/sqlite";
import fc from "fast-check";
import type { Pool } from "pg";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import type { ActionRequest } from "../../src/reservations/action-request.ts";
import type { Answer } from "../../src/reservations/index.ts";
import { actInside } from "../../src/reservations/inside.ts";
import { postgresReservations } from "../../src/reservations/postgres.ts";
import { sqliteReservations } from "../../src/reservations/sqlite.ts";
import type { Rules } from "../../src/reservations/store.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { play, type Stage, script, type Tally } from "../reservations/histories.ts";
import { race } from "../reservations/races.ts";
import { IS_FULL } from "../scale/sizes.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, poolOf, query, setFor } from "./postgres/database.ts";

const SEED = IS_FULL ? Date.now() : 6;
const TIMEOUT_MS = IS_FULL ? 3_600_000 : 120_000;
const RACES = IS_FULL ? 10_000 : 1_000;

async function sqliteStage(): Promise<Stage> {
  const clock = manualClock();
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  const store = sqliteReservations({ database, clock });
  return { store, now: async () => clock.now(), advance: async (ms) => clock.advance(ms) };
}

/** The clock is a sequence: sequences are not transactional, so every session sees a change at once. */
const CLOCK = `
CREATE SCHEMA stage;
CREATE SEQUENCE stage.clock START 1767225600000;
SELECT nextval('stage.clock');
CREATE FUNCTION stage.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
  AS 'SELECT pg_catalog.to_timestamp(last_value / 1000::numeric) FROM stage.clock';
`;

/**
 * The same store, whose actions all run in transactions of an application. Before an action commits, it is tried in
 * transactions that roll back, now and then.
 */
async function insideStage(context: TestContext): Promise<Stage> {
  const { pool, ...stage } = await postgresStage(context);
  let turns = 0;
  const inTransaction = async (
    request: ActionRequest,
    rules: Rules,
    how: "COMMIT" | "ROLLBACK",
  ): Promise<Answer> => {
    const tx = await pool.connect();
    try {
      await tx.query("BEGIN");
      const answer = await actInside(stage.store, tx, request, rules);
      await tx.query(how);
      return answer;
    } catch (error) {
      await tx.query("ROLLBACK");
      throw error;
    } finally {
      tx.release();
    }
  };
  const transact = async (group: readonly ActionRequest[], rules: Rules) => {
    const answers: Answer[] = [];
    for (const request of group) {
      if (++turns % 3 === 0) await inTransaction(request, rules, "ROLLBACK");
      answers.push(await inTransaction(request, rules, "COMMIT"));
    }
    return answers;
  };
  return { ...stage, store: { ...stage.store, transact, transactSkippingLocked: transact } };
}

async function postgresStage(context: TestContext): Promise<Stage & { readonly pool: Pool }> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, CLOCK);
  await setFor(url, { synchronous_commit: "off" });
  const name = new URL(url).pathname.slice(1);
  await query(url, `ALTER DATABASE ${name} SET search_path = stage, public, pg_catalog`);
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  const store = postgresReservations({ client: pool });
  await store.migrate();
  return {
    pool,
    store,
    now: () => store.now(),
    advance: async (ms) =>
      void (await pool.query("SELECT setval('stage.clock', last_value + $1) FROM stage.clock", [ms])),
  };
}

const SUBJECTS = [
  { name: "SQLite", open: sqliteStage, runs: IS_FULL ? 3_000 : 150 },
  { name: "Postgres", open: postgresStage, runs: IS_FULL ? 500 : 40 },
  { name: "Postgres in transactions of the application", open: insideStage, runs: IS_FULL ? 500 : 10 },
] as const;

for (const { name, open, runs } of SUBJECTS)
  describe(`reservations on ${name}`, () => {
    test(
      "any history is answered and recorded as the promises say, all twenty-two invariants after every step",
      async (context) => {
        const stage = await open(context);
        const tally: Tally = new Map();
        await fc.assert(
          fc.asyncProperty(script, (drawn) => play(stage, drawn, tally)),
          { numRuns: runs, seed: SEED },
        );
        console.log(`${runs} histories on ${name}, ${tally.get("moments")} moments judged (seed ${SEED})`);
      },
      TIMEOUT_MS,
    );

    // The races of actions in transactions are in reservations-inside-races.test.ts.
    if (open === insideStage) return;
    test(
      `${RACES} holds that are confirmed, released and expired at one millisecond end once each`,
      async (context) => {
        const won = await race(await open(context), RACES);
        console.log(`${RACES} races on ${name}: ${JSON.stringify(won)}`);
        expect(won.confirmed + won.released + won.expired).toBe(RACES);
        expect(Math.min(won.confirmed, won.released, won.expired)).toBeGreaterThan(0);
      },
      TIMEOUT_MS,
    );
  });
