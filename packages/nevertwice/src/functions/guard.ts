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

export interface Guard extends Engine, Marks, ClaimMethods {
  with(options: PolicyOptions): Guard;
  /** The same as below for a function that writes in a transaction of `options.transaction`, and gets it as its first argument. */
  wrap<Args extends readonly unknown[], T, Handle extends DatabaseHandle, Kept = unknown>(
    work: (tx: TransactionOf<Handle>, ...args: Args) => T | PromiseLike<T>,
    options: TransactionWrapOptions<Parameters<(...args: Args) => void>, Handle, OfWork<T>, Kept>,
  ): (...args: Args) => Promise<T>;
  /** Returns a function that runs once per key. The options are checked immediately. The function always returns a promise. */
  wrap<Args extends readonly unknown[], T, Kept = unknown>(
    work: (...args: Args) => T | PromiseLike<T>,
    options: WrapOptions<Parameters<(...args: Args) => void>, OfWork<T>, Kept>,
  ): (...args: Args) => Promise<T>;
  /** Runs `work` while it holds the lock of this name. Only its fence is safe: a holder that was paused may still believe that it holds the lock. */
  exclusive<T>(
    name: string | Key,
    work: (lock: Lock) => T | PromiseLike<T>,
    options?: ExclusiveOptions,
  ): Promise<T>;
  /**
   * Runs `work` in one transaction of the store's database, together with the completion of its record: both commit, or
   * neither does. `database` is a `pg` Pool, the `sql` of postgres.js, a pool of mysql2/promise, the SQLite connection of the
   * store, or what an adapter of `nevertwice/transaction/…` returns. Returns the value, or throws as `run` does.
   */
  transaction<T, Handle extends DatabaseHandle, Kept = unknown>(
    request: RunRequest<OfWork<T>, Kept>,
    database: Handle,
    work: (tx: TransactionOf<Handle>, attempt: Attempt) => T | PromiseLike<T>,
  ): Promise<T>;
}

/** Throws `options-invalid` with the name of a bad option. docs/options.md has every option and its default. */
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
