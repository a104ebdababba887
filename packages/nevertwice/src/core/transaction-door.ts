/**
 * How `transaction/` reaches the engine of a guard that it is handed. It is stored on the guard under a symbol, since the
 * methods of a guard are for users.
 */
import { requireGuard } from "./argument-checks.ts";
import { type Attempt, createAttempt } from "./attempt.ts";
import type { KeepLimits } from "./ending.ts";
import { NevertwiceError } from "./errors.ts";
import { Lease } from "./lease.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import type { Call, RunRequest } from "./request.ts";
import type { RunResult } from "./result.ts";
import { Round } from "./round.ts";
import type { Store } from "./store.ts";
import { transactionPolicy } from "./transaction.ts";
import type { TransactionRunner } from "./transaction-port.ts";

export interface TransactionDoor {
  readonly store: Store;
  /** Runs work in transactions of `database`. Throws `options-invalid` for one in which the store's records cannot be. */
  runnerFor(database: unknown, work: (tx: unknown, attempt: Attempt) => unknown): TransactionRunner;
  /** Claims, and runs the work in a transaction. Every expected ending is a value, as for `tryRun`. */
  tryRun<T>(request: RunRequest, runner: TransactionRunner): Promise<RunResult<T>>;
  /** Checks a request for a claim in the application's own transaction. */
  prepare(request: RunRequest): Call;
  limits(call: Call): KeepLimits;
  newToken(): string;
  /** An attempt in the application's own transaction, which holds its record until that ends. */
  begin(
    call: Call,
    granted: { readonly fence: number; readonly number: number },
  ): { handed: Attempt; end: () => void };
}

/** What the engine does for its door. */
interface DoorEngine {
  prepare(request: RunRequest): Call;
  execute<T>(call: Call, runner: TransactionRunner): Promise<RunResult<T>>;
}

export function createTransactionDoor(ports: Ports, { prepare, execute }: DoorEngine): TransactionDoor {
  const { store, timer, newToken } = ports;
  return {
    store,
    runnerFor(database, work) {
      const { runnerFor } = ports;
      if (runnerFor === undefined)
        throw new NevertwiceError("options-invalid", "this guard cannot run work in transactions.");
      return runnerFor(store, database, work);
    },
    async tryRun(request, runner) {
      const call = prepare(request);
      // A held claim must outlive a crash: it keeps others from trying again.
      const mayBeLost = call.policy.onLapsed !== "hold";
      return execute({ ...call, policy: transactionPolicy(call.policy), mayBeLost }, runner);
    },
    prepare,
    limits: ({ policy }) => ({ maxOutcomeBytes: outcomeLimit(ports, policy), origin: ports.origin?.() }),
    newToken,
    begin(call, { fence, number }) {
      const { leaseMs, maxRunMs } = call.policy;
      const lease = new Lease({
        timer,
        leaseMs,
        maxRunMs,
        sentAt: undefined,
        renew: undefined,
        onLost() {},
      });
      const round = new Round("", false);
      const isInTransaction = true;
      const settlement = { call, round, fence, isUnclaimed: false, startedAt: timer.now(), isInTransaction };
      return { handed: createAttempt(ports, settlement, lease, number), end: () => lease.stop() };
    },
  };
}

/** A registered symbol, so that all copies of this package share it. */
export const TRANSACTION_DOOR: unique symbol = Symbol.for("nevertwice.transaction") as never;

/** Throws `options-invalid` for an object that is not a guard. `usage` shows the call with the guard in its place. */
export function transactionDoor(guard: unknown, usage: string): TransactionDoor {
  requireGuard(guard, usage);
  const door = (guard as { readonly [TRANSACTION_DOOR]?: TransactionDoor })[TRANSACTION_DOOR];
  if (door !== undefined) return door;
  throw new NevertwiceError(
    "options-invalid",
    `the guard has no transactions: ${usage}. createGuard makes one.`,
  );
}
