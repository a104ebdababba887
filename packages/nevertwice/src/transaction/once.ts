/**
 * `once`: claims, works and completes inside a transaction that the application has open. Everything, the claim too, becomes
 * visible when the application commits, and nothing remains if it rolls back.
 *
 *   BEGIN ── … ── SAVEPOINT ── claim ── work ── complete ── RELEASE ── … ── COMMIT
 */
import type { Attempt } from "../core/attempt.ts";
import type { SqliteConnection } from "../core/database-handle.ts";
import { endingFromValue } from "../core/ending.ts";
import { enqueueWithin, enqueueWithinSync } from "../core/enqueue.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isFunction } from "../core/option-checks.ts";
import { decodeOutcome } from "../core/outcome.ts";
import type { Call, RunRequest } from "../core/request.ts";
import { type RunResult, replay } from "../core/result.ts";
import type { ClaimAnswer, ClaimRequest, CompleteRequest } from "../core/store.ts";
import {
  type ConnectionTransactions,
  type StatementTransactions,
  storeTransactions,
} from "../core/store-transactions.ts";
import type { CompletedEnding } from "../core/transaction.ts";
import { type TransactionDoor, transactionDoor } from "../core/transaction-door.ts";
import { runInside } from "./inside.ts";
import { isConnection, refusePromise, requireOpen } from "./sqlite.ts";

/** `guard` names the store, the namespace and the policies. Its `onFailure`, `onPending` and `waitMs` do not apply. */
// biome-ignore lint/suspicious/noExplicitAny: only any is a value of whatever type the work has.
export interface OnceRequest<T = any, Kept = any> extends RunRequest<T, Kept> {
  /** The guard whose records the key belongs to. */
  readonly guard: object;
}

/** On the synchronous connection of SQLite the result is no promise. */
export type OnceResult<Tx, T> = Tx extends SqliteConnection ? RunResult<T> : Promise<RunResult<Awaited<T>>>;

const USAGE = "once(tx, { guard, operation, key }, work)";
const SAVEPOINT = "SAVEPOINT nevertwice_once";
const RELEASE = "RELEASE SAVEPOINT nevertwice_once";
const ROLL_BACK = "ROLLBACK TO SAVEPOINT nevertwice_once";

/**
 * Runs `work` once for this key, inside your transaction. The status `ran` holds if you commit. `pending` means that another
 * transaction or attempt has the key: roll back, and try again later. What the work throws is thrown, and what it wrote is
 * rolled back to the state before `once`. Deadlocks and serialization failures are thrown too: they end your transaction.
 * @throws `lease-lost`, `options-invalid`
 * @example
 * ```ts server
 * import pg from "pg";
 * import { createGuard } from "nevertwice";
 * import { postgresStore } from "nevertwice/stores/postgres";
 * import { once } from "nevertwice/transaction";
 *
 * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
 * const guard = createGuard({ store: postgresStore({ client: pool }) });
 * const tx = await pool.connect();
 * await tx.query("BEGIN");
 * await once(tx, { guard, operation: "pay", key: "order-17" }, async () => {
 *   await tx.query("UPDATE orders SET paid = true WHERE id = $1", ["order-17"]);
 * });
 * await tx.query("COMMIT");
 * tx.release();
 * ```
 */
export function once<Tx, T>(
  tx: Tx,
  request: OnceRequest,
  work: (tx: Tx, attempt: Attempt) => T,
): OnceResult<Tx, T> {
  const { guard, ...asked } = request ?? {};
  const door = transactionDoor(guard, USAGE);
  isFunction("the work", work);
  const call = door.prepare(asked as RunRequest);
  const transactions = storeTransactions(door.store);
  const inside = {
    door,
    call,
    work: (attempt: Attempt) =>
      isConnection(tx)
        ? enqueueWithinSync(attempt, tx, () => work(tx, attempt))
        : enqueueWithin(attempt, tx, () => work(tx, attempt)),
  };
  if (transactions?.kind === "connection" && isConnection(tx) && transactions.isConnection(tx))
    return onceOnConnection(tx, transactions, inside) as OnceResult<Tx, T>;
  if (transactions?.kind !== "statements" || isConnection(tx))
    throw new NevertwiceError(
      "options-invalid",
      "the transaction is not one of the store's database: once needs a guard on postgresStore, mysqlStore, or sqliteStore({ database }) with the same connection.",
    );
  return onceInside(runInside(tx), transactions, inside) as OnceResult<Tx, T>;
}

interface OnceCall {
  readonly door: TransactionDoor;
  readonly call: Call;
  readonly work: (attempt: Attempt) => unknown;
}

type Granted = Extract<ClaimAnswer, { readonly status: "new" }>;

async function onceInside(
  run: ReturnType<typeof runInside>,
  transactions: StatementTransactions,
  { door, call, work }: OnceCall,
): Promise<RunResult<unknown>> {
  await transactions.requireOpen?.(run);
  await run(SAVEPOINT);
  const claim = claimRequest(door, call);
  const answer = await transactions.claim(run, claim);
  if (answer.status !== "new") {
    await run(RELEASE);
    return refusal(call, answer);
  }
  const { handed, end } = door.begin(call, answer);
  try {
    const ending = toEnding(door, call, await work(handed));
    const last = { run, commits: false };
    const answered = await transactions.complete(last, completeRequest(claim, call, ending), undefined);
    if (answered !== "completed") throw lostError();
    await run(RELEASE);
    return ran(ending);
  } catch (error) {
    // After a deadlock the server has rolled back everything. The caller gets the reason, not this error.
    await run(ROLL_BACK).catch(() => {});
    throw error;
  } finally {
    end();
  }
}

function onceOnConnection(
  database: SqliteConnection,
  transactions: ConnectionTransactions,
  { door, call, work }: OnceCall,
): RunResult<unknown> {
  requireOpen(database, "use guard.transaction");
  database.exec(SAVEPOINT);
  try {
    const claim = claimRequest(door, call);
    const answer = transactions.claim(claim);
    const result =
      answer.status === "new"
        ? runOnConnection(answer, claim, transactions, { door, call, work })
        : undefined;
    database.exec(RELEASE);
    return result ?? refusal(call, answer as Exclude<ClaimAnswer, Granted>);
  } catch (error) {
    database.exec(`${ROLL_BACK}; ${RELEASE}`);
    throw error;
  }
}

function runOnConnection(
  granted: Granted,
  claim: ClaimRequest,
  transactions: ConnectionTransactions,
  { door, call, work }: OnceCall,
): RunResult<unknown> {
  const { handed, end } = door.begin(call, granted);
  try {
    const ending = toEnding(door, call, refusePromise(work(handed)));
    if (!transactions.complete(completeRequest(claim, call, ending))) throw lostError();
    return ran(ending);
  } finally {
    end();
  }
}

function toEnding(door: TransactionDoor, call: Call, value: unknown): CompletedEnding {
  return endingFromValue(value, door.limits(call), call) as CompletedEnding;
}

function ran({ content }: CompletedEnding): RunResult<unknown> {
  return { status: "ran", value: "value" in content ? content.value : undefined, recorded: true };
}

function claimRequest(door: TransactionDoor, { identity, fingerprint, policy }: Call): ClaimRequest {
  const { leaseMs, retentionMs, onLapsed } = policy;
  const { id, parts } = identity;
  return { id, parts, fingerprint, token: door.newToken(), leaseMs, retentionMs, hold: onLapsed === "hold" };
}

function completeRequest(
  { id, token }: ClaimRequest,
  { policy }: Call,
  { outcome }: CompletedEnding,
): CompleteRequest {
  return { id, token, outcome, retentionMs: policy.retentionMs };
}

function refusal({ policy, decode }: Call, answer: Exclude<ClaimAnswer, Granted>): RunResult<unknown> {
  if (answer.status !== "completed") return answer;
  return policy.onCompleted === "reject"
    ? { status: "already-done" }
    : replay(decodeOutcome(answer.outcome), decode);
}

function lostError(): NevertwiceError {
  return new NevertwiceError(
    "lease-lost",
    "the record was changed while the work ran; roll the transaction back.",
  );
}
