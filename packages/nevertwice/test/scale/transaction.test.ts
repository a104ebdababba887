/**
 * Tests `guard.transaction` with processes that are killed at every named point of a transaction, on a real Postgres. The
 * ledger is a table without any constraint, so that a second payment would be seen.
 */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { migrationSql } from "../../src/stores/postgres.ts";
import { sharedUrl } from "../services/services.ts";
import { createDatabase, query } from "../stores/postgres/database.ts";
import { type Message, startProcess } from "./processes.ts";

const POINTS = ["claim", "lock", "work", "complete", "commit"] as const;

interface Paid extends Message {
  readonly kind: "paid";
  readonly value: number;
}

test("an order is paid exactly once, wherever the process that pays it is killed", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, `${migrationSql()}; CREATE TABLE ledger (key text NOT NULL, attempt int)`);
  await Promise.all(
    POINTS.map(async (point) => {
      const key = `${point}-${randomUUID()}`;
      const killed = startProcess(context, "payer.js", { url, key, point });
      await killed.ended;
      const rows = () => query(url, `SELECT attempt FROM ledger WHERE key = '${key}'`);
      // Only a COMMIT that the server has carried out leaves anything.
      const isPaid = point === "commit";
      expect(await rows(), point).toEqual(isPaid ? [{ attempt: 1 }] : []);
      const retry = startProcess(context, "payer.js", { url, key });
      const { value } = await retry.next<Paid>("paid");
      expect(value, point).toBe(isPaid ? 1 : 2);
      expect(await rows(), point).toEqual([{ attempt: isPaid ? 1 : 2 }]);
      await retry.ended;
    }),
  );
});
