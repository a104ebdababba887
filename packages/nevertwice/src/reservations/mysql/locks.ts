/** Waits for row locks, but not for those of a transaction that the application has open. */
import { change, type MysqlClient, queryRows } from "../../stores/mysql/client.ts";
import { isLockTaken } from "../../stores/mysql/errors.ts";
import type { BoundedConnection } from "../../stores/mysql/statement-runner.ts";
import { areFreeSql } from "../mysql-sql.ts";

/**
 * How long a statement may wait before the store looks for what it waits for. Another group holds a lock for a few
 * milliseconds, and its turn must not be lost: so nothing is cancelled unless a mark is taken.
 */
const LOOK_MS = 100;

/** The statement waited for a transaction of the application. It was cancelled, and its connection closed. */
export class MetOpenTransaction extends Error {
  constructor(cause: unknown) {
    super("a transaction of the application has locked it", { cause });
  }
}

/**
 * Runs a statement that locks the rows of these marks. It looks at the marks on another connection of the pool: a pool with
 * a single connection finds out only when the statement's own limit ends it.
 */
export async function lockRows(
  client: MysqlClient,
  connection: BoundedConnection,
  statement: string,
  marks: () => readonly string[],
): Promise<void> {
  let isLocked = false;
  let isOpen = false;
  let timer = setTimeout(look, LOOK_MS);

  async function look(): Promise<void> {
    const isTaken = await queryRows(client, areFreeSql(marks())).then(() => false, isLockTaken);
    if (isLocked) return;
    isOpen = isTaken;
    if (isTaken) connection.cancel();
    else timer = setTimeout(look, LOOK_MS);
  }

  try {
    await change(connection, statement);
  } catch (error) {
    throw isOpen ? new MetOpenTransaction(error) : error;
  } finally {
    isLocked = true;
    clearTimeout(timer);
  }
}
