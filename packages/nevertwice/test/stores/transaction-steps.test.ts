/** Tests transactions of records with steps (`attempt.step`), on real Postgres and MariaDB: a transaction keeps no steps. */
import { randomUUID } from "node:crypto";
import { expect, onTestFinished, type TestContext, test } from "vitest";
import type { Attempt, Guard } from "../../src/index.ts";
import { once } from "../../src/transaction/index.ts";
import { poolOn } from "./mysql/pools.ts";
import { poolOf, query } from "./postgres/database.ts";
import { onMysql, onPostgres } from "./transaction/scene.ts";

const STEPS = "SELECT count(steps) AS kept FROM nevertwice_records";
const REFUSED = { code: "options-invalid", message: expect.stringContaining("attempt.step") };

interface Subject {
  readonly guard: Guard;
  transact<T>(key: string, work: (attempt: Attempt) => Promise<T>): Promise<T>;
  inOnce(key: string, work: (attempt: Attempt) => Promise<unknown>): Promise<unknown>;
  /** How many records have the text of steps. */
  keptSteps(): Promise<number>;
  rows(): Promise<number>;
}

/** What the work of every transaction does: it writes to the ledger first. */
async function insertAnd<T>(
  tx: { query(text: string): Promise<unknown> },
  key: string,
  rest: () => Promise<T>,
): Promise<T> {
  await tx.query(`INSERT INTO ledger VALUES ('${key}')`);
  return rest();
}

const SUBJECTS: Readonly<Record<string, (context: TestContext) => Promise<Subject>>> = {
  async Postgres(context) {
    const { url, guard, rows } = await onPostgres(context);
    const pool = poolOf(url);
    onTestFinished(() => pool.end());
    return {
      guard,
      rows,
      transact: (key, work) =>
        guard.transaction({ operation: "pay", key }, pool, (tx, attempt) =>
          insertAnd(tx, key, () => work(attempt)),
        ),
      async inOnce(key, work) {
        const client = await pool.connect();
        await client.query("BEGIN");
        try {
          return await once(client, { guard, operation: "pay", key }, (_, attempt) => work(attempt));
        } finally {
          await client.query("COMMIT");
          client.release();
        }
      },
      keptSteps: async () => Number((await query<{ kept: string }>(url, STEPS))[0]?.kept),
    };
  },
  async MariaDB(context) {
    const { url, guard, rows } = await onMysql(context);
    const pool = poolOn(context, url);
    return {
      guard,
      rows,
      transact: (key, work) =>
        guard.transaction({ operation: "pay", key }, pool, (tx, attempt) =>
          insertAnd(tx, key, () => work(attempt)),
        ),
      async inOnce(key, work) {
        const connection = await pool.getConnection();
        await connection.query("START TRANSACTION");
        try {
          return await once(connection, { guard, operation: "pay", key }, (_, attempt) => work(attempt));
        } finally {
          await connection.query("COMMIT");
          connection.release();
        }
      },
      async keptSteps() {
        const [rows] = await pool.query(STEPS);
        return Number((rows as { kept: unknown }[])[0]?.kept);
      },
    };
  },
};

/** Leaves a released key with one finished step. */
async function finishOneStep({ guard }: Subject, key: string): Promise<void> {
  const work = async (attempt: Attempt) => {
    await attempt.step("charge", async () => "charged");
    throw new Error("the rest failed");
  };
  await expect(guard.run({ operation: "pay", key }, work)).rejects.toThrow("the rest failed");
}

for (const [name, create] of Object.entries(SUBJECTS)) {
  test(`a step in a transaction is refused, and nothing is committed (${name})`, async (context) => {
    const subject = await create(context);
    const step = (attempt: Attempt) => attempt.step("charge", async () => "charged");
    await expect(subject.transact(randomUUID(), step)).rejects.toMatchObject(REFUSED);
    await expect(subject.inOnce(randomUUID(), step)).rejects.toMatchObject(REFUSED);
    expect(await subject.rows()).toBe(0);
  });

  test(`a transaction completes a key that has steps, and drops them (${name})`, async (context) => {
    const subject = await create(context);
    const [first, second] = [randomUUID(), randomUUID()];
    await finishOneStep(subject, first);
    await finishOneStep(subject, second);
    expect(await subject.keptSteps()).toBe(2);
    expect(await subject.transact(first, async ({ number }) => number)).toBe(2);
    expect(await subject.keptSteps()).toBe(1);
    expect(await subject.inOnce(second, async ({ number }) => number)).toMatchObject({
      status: "ran",
      value: 2,
    });
    expect(await subject.keptSteps()).toBe(0);
    expect(await subject.transact(first, async () => 3)).toBe(2);
  });
}
