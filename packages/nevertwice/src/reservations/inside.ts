/**
 * Actions in a transaction that the application has open. The hold, its key and its event commit with what the application
 * wrote, and nothing remains if it rolls back.
 *
 *   BEGIN ── … ── SAVEPOINT ── lock key, resource ── read rows and clock ── decide ── write ── RELEASE ── … ── COMMIT
 */
import type { SqliteConnection } from "../core/database-handle.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions } from "../core/option-checks.ts";
import { runInside } from "../transaction/inside.ts";
import { isConnection, requireOpen } from "../transaction/sqlite.ts";
import type { ActionRequest } from "./action-request.ts";
import type { Answer } from "./answer.ts";
import type { ConnectionActions, ReservationStore, Rules } from "./store.ts";

/** Options of an action in your own transaction. */
export interface InsideOptions<Tx = unknown> {
  /**
   * A transaction that you have open in the database of the store: what `once` of `nevertwice/transaction` takes. A pool
   * throws `options-invalid`.
   */
  readonly tx: Tx;
}

/** On the synchronous connection of SQLite the answer is no promise. */
export type InsideAnswer<Tx, Answered> = Tx extends SqliteConnection ? Answered : Promise<Answered>;

const SAVEPOINT = "SAVEPOINT nevertwice_hold";
const RELEASE = "RELEASE SAVEPOINT nevertwice_hold";
const ROLL_BACK = "ROLLBACK TO SAVEPOINT nevertwice_hold";

/** Checks the options of a call. Without a `tx` in them the action would commit by itself, which the caller did not mean. */
export function checkedTransaction(options: InsideOptions): unknown {
  checkOptions(options, { tx: () => {} });
  if (options?.tx !== undefined && options.tx !== null) return options.tx;
  throw new NevertwiceError(
    "options-invalid",
    "tx is missing: pass the transaction that you have open, or no options at all.",
  );
}

/** The connection of a SQLite store, if `tx` is that. */
export function synchronousActions(store: ReservationStore, tx: unknown): ConnectionActions | undefined {
  const { inside } = store;
  return inside?.kind === "connection" && inside.isConnection(tx) ? inside : undefined;
}

/** Throws what the connection throws; the transaction is then as it was before. */
export function actOnConnection(
  { act }: ConnectionActions,
  database: SqliteConnection,
  request: ActionRequest,
  rules: Rules,
): Answer {
  requireOpen(database, "leave tx out");
  database.exec(SAVEPOINT);
  try {
    const answer = act(request, rules);
    database.exec(RELEASE);
    return answer;
  } catch (error) {
    database.exec(`${ROLL_BACK}; ${RELEASE}`);
    throw error;
  }
}

/** Rejects with what the driver throws. The transaction is then as it was before, unless the server has ended it. */
export async function actInside(
  { inside }: ReservationStore,
  tx: unknown,
  request: ActionRequest,
  rules: Rules,
): Promise<Answer> {
  if (inside?.kind !== "statements" || isConnection(tx))
    throw new NevertwiceError(
      "options-invalid",
      "tx is not a transaction of the store's database: it needs postgresReservations, mysqlReservations, or sqliteReservations({ database }) with the same connection.",
    );
  const run = runInside(tx);
  return inTurn(tx as object, async () => {
    await inside.prepare(run);
    await run(SAVEPOINT);
    try {
      const answer = await inside.act(run, request, rules);
      await run(RELEASE);
      return answer;
    } catch (error) {
      // After a deadlock MySQL has rolled back everything. The caller gets the reason, not this error.
      await run(ROLL_BACK).catch(() => {});
      throw error;
    }
  });
}

/** The last action of each transaction. */
const turns = new WeakMap<object, Promise<unknown>>();

/**
 * One action of a transaction at a time. The locks do not keep two actions of one transaction apart: both would read the
 * same units as free.
 */
function inTurn(tx: object, action: () => Promise<Answer>): Promise<Answer> {
  const turn = (turns.get(tx) ?? Promise.resolve()).then(action, action);
  turns.set(tx, turn);
  return turn;
}
