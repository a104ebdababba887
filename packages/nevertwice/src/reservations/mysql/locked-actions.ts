/** Sets actions aside that would wait for a transaction which the application has open. */
import { type MysqlClient, queryRows } from "../../stores/mysql/client.ts";
import { isLockTaken } from "../../stores/mysql/errors.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { neededRows } from "../decision.ts";
import { areFreeSql } from "../mysql-sql.ts";
import { NotWritten, type Rules } from "../store.ts";
import { findNames, toMarks, transact } from "./transaction.ts";

/** Carries out the actions that no transaction of the application delays. Undefined: one has locked what the action needs. */
export async function transactSkippingLocked(
  client: MysqlClient,
  group: readonly ActionRequest[],
  rules: Rules,
): Promise<readonly (Answer | undefined)[]> {
  const locked = (error: unknown) => {
    if (error instanceof NotWritten && isLockTaken(error)) return undefined;
    throw error;
  };
  const all = await transact(client, group, rules, { skipsLocked: true }).catch(locked);
  if (all !== undefined) return all;
  const free = await findFree(client, group, rules.namespace).catch((error: unknown) => {
    throw new NotWritten(error);
  });
  if (free.length === 0) return group.map(() => undefined);
  const answers = await transact(client, free, rules, { skipsLocked: true }).catch(locked);
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
