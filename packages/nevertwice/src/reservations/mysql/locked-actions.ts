/**
 * Sets actions aside that would wait for a transaction which the application has open.
 *
 *   open transactions expected ── look at the marks ─┬─ taken: leave these actions out
 *   not expected ────────────────── lock the rows ───┴─ no answer after LOOK_MS: look at the marks, again and again
 */
import { type MysqlClient, queryRows } from "../../stores/mysql/client.ts";
import { isLockTaken } from "../../stores/mysql/errors.ts";
import type { BoundedClient } from "../../stores/mysql/statement-runner.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { neededRows } from "../decision.ts";
import { areFreeSql } from "../mysql-sql.ts";
import type { OpenTransactions } from "../open-transactions.ts";
import { NotWritten, type Rules } from "../store.ts";
import { MetOpenTransaction } from "./locks.ts";
import { findNames, toMarks, transact } from "./transaction.ts";

/** Carries out the actions that no transaction of the application delays. Undefined: one has locked what the action needs. */
export async function transactSkippingLocked(
  client: BoundedClient,
  group: readonly ActionRequest[],
  rules: Rules,
  open: OpenTransactions,
): Promise<readonly (Answer | undefined)[]> {
  const locked = (error: unknown) => {
    if (!(error instanceof NotWritten)) throw error;
    if (!isLockTaken(error) && !(error.cause instanceof MetOpenTransaction)) throw error;
    open.expect();
    return undefined;
  };
  const all = await transact(client, group, rules, { looksFirst: open.areExpected() }).catch(locked);
  if (all !== undefined) return all;
  const free = await findFree(client, group, rules.namespace).catch((error: unknown) => {
    throw new NotWritten(error);
  });
  if (free.length === 0) return group.map(() => undefined);
  // Looks again: while the actions were looked at one by one, the application may have locked what the first of them needs.
  const answers = await transact(client, free, rules, { looksFirst: true }).catch(locked);
  return group.map((request) => answers?.[free.indexOf(request)]);
}

/** The actions whose key and resource no transaction of the application has locked at the moment. */
async function findFree(
  client: MysqlClient,
  group: readonly ActionRequest[],
  namespace: string,
): Promise<readonly ActionRequest[]> {
  const free: ActionRequest[] = [];
  for (const request of group) {
    try {
      const needs = neededRows([request]);
      const names = await findNames(client, needs, namespace);
      await queryRows(client, areFreeSql(toMarks(needs, namespace, names)));
      free.push(request);
    } catch (error) {
      if (!isLockTaken(error)) throw error;
    }
  }
  return free;
}
