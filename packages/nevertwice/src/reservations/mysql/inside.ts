/**
 * One action in a transaction of the application on MySQL or MariaDB. Its isolation is usually REPEATABLE READ, where a plain
 * read shows the snapshot that the first read of the transaction took, so every row that decides is read with its lock.
 *
 *   key ─▶ resource ─▶ commitment ─▶ clock ─▶ decide ─▶ write
 *                                       └─ not enough units: lock the elapsed holds, oldest first, and decide again
 *
 * Rows are locked by their primary key alone. A locking read of an index, or of a row that does not exist, would also lock
 * the gap beside it, and holds of other resources would wait for the application.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { RunText } from "../../core/store-transactions.ts";
import type { MysqlRow } from "../../stores/mysql/client.ts";
import { isDuplicateRow } from "../../stores/mysql/errors.ts";
import { unpacked } from "../../stores/mysql/transaction-sql.ts";
import { requireOpen } from "../../stores/mysql/transactions.ts";
import { readNumber, readText } from "../../stores/mysql/values.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { isName } from "../commitment.ts";
import { decide, type GroupDecision } from "../decision.ts";
import * as sql from "../mysql-sql.ts";
import type { OpenTransactions } from "../open-transactions.ts";
import type { KeptCommitment, Rules, StatementActions } from "../store.ts";
import { requireReadable } from "../stored-rows.ts";
import { createTimeOrderedId } from "../time-ordered-id.ts";
import { isPlaceholder, isTooLong, toCommitment, toKey, toResource } from "./rows.ts";
import { writeStatements } from "./transaction.ts";

export function createActionsInside(ready: () => Promise<void>, open: OpenTransactions): StatementActions {
  return {
    kind: "statements",
    async prepare(run) {
      await ready();
      await requireOpen(run, "leave tx out");
      open.expect();
    },
    act,
  };
}

async function act(run: RunText, request: ActionRequest, rules: Rules): Promise<Answer> {
  const { namespace } = rules;
  const checkpoint = createTimeOrderedId();
  const keyMark = sql.keyMark(request.keyId);
  await run(sql.lockKeysSql(namespace, [keyMark, request.keyId]));
  await run(sql.deleteKeySql(keyMark));
  const key = await readRow(run, sql.INSIDE.keys, sql.isKey(request.keyId), "FOR UPDATE");
  const { id } = request.parameters;
  const commitmentId = typeof id === "string" && !isTooLong(id) ? id : undefined;
  const name = await findResource(run, namespace, request, commitmentId);
  if (name !== undefined) await lockResource(run, namespace, name);
  const isResource = name === undefined ? "FALSE" : sql.isResource(namespace, name);
  const resource = await readRow(run, sql.INSIDE.resources, isResource, "FOR UPDATE");
  const isThere = (row: MysqlRow | undefined) => row !== undefined && !isPlaceholder(row);
  const commitment =
    name === undefined || commitmentId === undefined
      ? undefined
      : await lockCommitment(run, namespace, commitmentId);
  const now = Number(await run(sql.INSIDE_CLOCK_SQL));
  const found = {
    keys: new Map(isThere(key) ? [[request.keyId, requireReadable(toKey(key as MysqlRow))]] : []),
    resources: new Map(
      isThere(resource) ? [[name as string, requireReadable(toResource(resource as MysqlRow))]] : [],
    ),
    commitments: new Map(commitment === undefined ? [] : [[commitment.id, commitment]]),
  };
  const decideWith = (elapsed: readonly KeptCommitment[]) =>
    decide([request], { ...found, elapsed: new Map([[name ?? "", elapsed]]) }, now, rules, checkpoint);
  let decision = decideWith([]);
  if (name !== undefined && request.action === "placeHold" && isFull(decision)) {
    const elapsed = lockElapsed(run, { namespace, resource: name, now });
    decision = await decideUntilFree(decision, decideWith, elapsed.next);
    if (isFull(decision) && (elapsed.hasEnded() || !(await isCurrent(run, isResource, resource))))
      throw staleSnapshot();
  }
  for (const statement of writeStatements(decision.writes, checkpoint)) await run(statement);
  if (resource !== undefined && isPlaceholder(resource) && decision.writes.resources.length === 0)
    await run(sql.forgetResourcesSql(namespace, [name as string]));
  if (decision.writes.keys.length === 0) await writeForFlush(run, namespace, checkpoint);
  return decision.answers[0] as Answer;
}

/** With its mark, so that no transaction of the store waits for it. */
async function lockResource(run: RunText, namespace: string, name: string): Promise<void> {
  const mark = sql.resourceMark(namespace, name);
  await run(sql.lockKeysSql(namespace, [mark]));
  await run(sql.deleteKeySql(mark));
  await run(sql.lockResourcesSql(namespace, [name]));
}

/** The first row, with columns as bytes. */
async function readRow(
  run: RunText,
  table: sql.InsideTable,
  condition: string,
  locking = "",
): Promise<MysqlRow | undefined> {
  const text = await run(sql.insideSql(table, condition, locking));
  return text === undefined ? undefined : unpacked(table.columns, text);
}

async function lockCommitment(
  run: RunText,
  namespace: string,
  id: string,
): Promise<KeptCommitment | undefined> {
  const row = await readRow(run, sql.INSIDE.commitments, sql.isCommitment(namespace, id), "FOR UPDATE");
  return row === undefined ? undefined : requireReadable(toCommitment(row));
}

/** The resource that the action names, or that of its commitment. */
async function findResource(
  run: RunText,
  namespace: string,
  request: ActionRequest,
  commitmentId: string | undefined,
): Promise<string | undefined> {
  const { resource } = request.parameters;
  if (commitmentId === undefined) return isName(resource) ? resource : undefined;
  const isCommitment = sql.isCommitment(namespace, commitmentId);
  const seen = await readRow(run, sql.INSIDE.commitments, isCommitment);
  if (seen !== undefined) return readText(seen, "resource");
  // It does not exist, or was placed after the snapshot. An insert tells which, and locks no gap.
  try {
    await run(sql.probeSql(namespace, commitmentId));
  } catch (error) {
    if (!isDuplicateRow(error)) throw error;
    const row = await readRow(run, sql.INSIDE.commitments, isCommitment, "FOR UPDATE");
    return row === undefined ? undefined : readText(row, "resource");
  }
  await run(sql.unprobeSql(namespace, commitmentId));
  return undefined;
}

function isFull({ answers: [answer] }: GroupDecision): boolean {
  return answer?.ok === false && answer.reason === "resource-unavailable";
}

/** Decides again with more and more elapsed holds. Twice as many each time, so that the work stays in proportion. */
async function decideUntilFree(
  first: GroupDecision,
  decideWith: (elapsed: readonly KeptCommitment[]) => GroupDecision,
  next: () => Promise<KeptCommitment | undefined>,
): Promise<GroupDecision> {
  const elapsed: KeptCommitment[] = [];
  let decision = first;
  for (let wanted = 1; isFull(decision); wanted *= 2) {
    while (elapsed.length < wanted) {
      const hold = await next();
      if (hold === undefined) return decideWith(elapsed);
      elapsed.push(hold);
    }
    decision = decideWith(elapsed);
  }
  return decision;
}

/** The elapsed holds of a resource, oldest first, each locked by its primary key. */
function lockElapsed(
  run: RunText,
  {
    namespace,
    resource,
    now,
  }: { readonly namespace: string; readonly resource: string; readonly now: number },
) {
  let position: sql.HeldPosition | undefined;
  let hasEnded = false;
  return {
    /** The snapshot showed a hold that has ended since. */
    hasEnded: () => hasEnded,
    async next(): Promise<KeptCommitment | undefined> {
      for (;;) {
        const seen = await run(sql.nextElapsedSql(namespace, resource, now, position));
        if (seen === undefined) return undefined;
        const row = unpacked(["held_until", "id"], seen);
        position = { heldUntil: readNumber(row, "held_until"), id: readText(row, "id") };
        const locked = await readRow(
          run,
          sql.INSIDE.commitments,
          sql.isCommitment(namespace, position.id),
          "FOR UPDATE",
        );
        const read = locked === undefined ? undefined : toCommitment(locked);
        // A hold that cannot be read cannot be expired: it keeps its units.
        if (read === undefined || !("row" in read)) continue;
        if (read.row.state === "held") return read.row;
        hasEnded = true;
      }
    },
  };
}

/** Whether the snapshot of the transaction shows the resource as it is. */
async function isCurrent(run: RunText, isResource: string, locked: MysqlRow | undefined): Promise<boolean> {
  const seen = await readRow(run, sql.INSIDE.resources, isResource);
  const toText = (row: MysqlRow | undefined) => JSON.stringify(Object.values(row ?? {}).map(String));
  return toText(seen) === toText(locked);
}

function staleSnapshot(): NevertwiceError {
  return new NevertwiceError(
    "concurrent-modification",
    "the snapshot of your transaction is older than the last change of this resource, so it does not show which holds have elapsed. Roll back and repeat the transaction; at READ COMMITTED, or with the hold as its first statement, this does not happen.",
  );
}

/** Gives a transaction that only read something to commit: see `flushSql`. */
async function writeForFlush(run: RunText, namespace: string, id: string): Promise<void> {
  await run(sql.flushSql(namespace, id));
  const isWritten = (await readRow(run, sql.INSIDE.keys, sql.isKey(id))) !== undefined;
  if (isWritten) await run(sql.deleteKeySql(id));
}
