/** The guard of the public API: the engine, with methods for functions, jobs and locks. */
import type { Attempt } from "../core/attempt.ts";
import type { DatabaseHandle, TransactionOf } from "../core/database-handle.ts";
import {
  createEngine,
  type Engine,
  type GuardOptions,
  type MarkEngine,
  SYSTEM_PORTS,
} from "../core/engine.ts";
import type { Key } from "../core/key.ts";
import { createEmit, observersIn } from "../core/observer.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { OfWork, RunRequest } from "../core/request.ts";
import { runnerFor, transaction } from "../transaction/guarded.ts";
import { type ClaimMethods, createClaimMethods } from "./claim.ts";
import { type ExclusiveOptions, exclusive, type Lock } from "./exclusive.ts";
import { createMarks, type Marks, type NotifyMark } from "./mark.ts";
import { type WrapOptions, wrap } from "./wrap.ts";
import { isInTransaction, type TransactionWrapOptions, wrapInTransaction } from "./wrap-transaction.ts";

/** Runs work once per key. All methods share the store, the namespace and the policies of the guard. */
export interface Guard extends Engine, Marks, ClaimMethods {
  /**
   * The same guard with other policies, so that they need not be repeated in each request. Closing either
   * closes both.
   * @throws `options-invalid`
   */
  with(options: PolicyOptions): Guard;
  /** The same as below for a function that writes in a transaction of `options.transaction`, and gets it as its first argument. */
  wrap<Args extends readonly unknown[], T, Handle extends DatabaseHandle, Kept = unknown>(
    work: (tx: TransactionOf<Handle>, ...args: Args) => T | PromiseLike<T>,
    options: TransactionWrapOptions<Parameters<(...args: Args) => void>, Handle, OfWork<T>, Kept>,
  ): (...args: Args) => Promise<T>;
  /**
   * Returns a function that runs once per key. The options are checked immediately. The function always returns a promise.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * const charge = guard.wrap(async (order: { id: string; amount: number }) => `paid ${order.amount}`, {
   *   operation: "charge",
   *   key: (order) => order.id,
   *   fingerprint: (order) => ({ amount: order.amount }),
   * });
   * console.log(await charge({ id: "order-17", amount: 4_200 }));
   * ```
   */
  wrap<Args extends readonly unknown[], T, Kept = unknown>(
    work: (...args: Args) => T | PromiseLike<T>,
    options: WrapOptions<Parameters<(...args: Args) => void>, OfWork<T>, Kept>,
  ): (...args: Args) => Promise<T>;
  /**
   * Runs `work` while it holds the lock of this name. Only its fence is safe: a holder that was paused may still believe that it holds the lock.
   * @example
   * ```ts
   * import { createGuard } from "nevertwice";
   * import { memoryStore } from "nevertwice/stores/memory";
   *
   * const guard = createGuard({ store: memoryStore() });
   * await guard.exclusive("nightly report", async (lock) => {
   *   if (!lock.signal.aborted) console.log(`the holder's fence is ${lock.fence}`);
   * });
   * ```
   */
  exclusive<T>(
    name: string | Key,
    work: (lock: Lock) => T | PromiseLike<T>,
    options?: ExclusiveOptions,
  ): Promise<T>;
  /**
   * Runs `work` in one transaction of the store's database, together with the completion of its record: both commit, or
   * neither does. `database` is a `pg` Pool, the `sql` of postgres.js, a pool of mysql2/promise, the SQLite connection of the
   * store, or what an adapter of `nevertwice/transaction/…` returns. Returns the value, or throws as `run` does.
   * @example
   * ```ts server
   * import pg from "pg";
   * import { createGuard } from "nevertwice";
   * import { postgresStore } from "nevertwice/stores/postgres";
   *
   * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
   * const guard = createGuard({ store: postgresStore({ client: pool }) });
   * await guard.transaction({ operation: "pay", key: "order-17" }, pool, async (tx) => {
   *   await tx.query("UPDATE orders SET paid = true WHERE id = $1", ["order-17"]);
   * });
   * ```
   */
  transaction<T, Handle extends DatabaseHandle, Kept = unknown>(
    request: RunRequest<OfWork<T>, Kept>,
    database: Handle,
    work: (tx: TransactionOf<Handle>, attempt: Attempt) => T | PromiseLike<T>,
  ): Promise<T>;
}

/**
 * Creates a guard, which runs work once per key. A bad option is refused at once, by its name.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createGuard } from "nevertwice";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore(), namespace: "shop" });
 * const charge = () => guard.run({ operation: "charge", key: "order-17" }, async () => "receipt 1");
 * console.log(await charge(), await charge()); // receipt 1 receipt 1: the work ran once
 * await guard.close();
 * ```
 */
export function createGuard(options: GuardOptions): Guard {
  const engine = createEngine(options, { ...SYSTEM_PORTS, runnerFor });
  const emit = createEmit(observersIn(options.observer));
  return guardFrom(engine, (kind, subject, cause) => {
    const who = engine.about(subject);
    emit?.(kind === "proceeded" ? { ...who, kind } : { ...who, kind, during: "read", cause });
  });
}

function guardFrom(engine: MarkEngine, notify: NotifyMark): Guard {
  return {
    ...engine,
    ...createMarks(engine, notify),
    ...createClaimMethods(engine),
    get policy() {
      return engine.policy;
    },
    with: (options) => guardFrom(engine.with(options), notify),
    // biome-ignore lint/suspicious/noExplicitAny: the two forms of `wrap` have different functions.
    wrap: (work: any, options: any) =>
      isInTransaction(options) ? wrapInTransaction(engine, work, options) : wrap(engine, work, options),
    exclusive: (name, work, options) => exclusive(engine, name, work, options),
    transaction: (request, database, work) => transaction(engine, request, database, work),
  };
}
