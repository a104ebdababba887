/** A guarded version of a function that writes in a transaction: its first parameter is the transaction. */
import type { DatabaseHandle, TransactionOf } from "../core/database-handle.ts";
import { NevertwiceError } from "../core/errors.ts";
import { isFunction } from "../core/option-checks.ts";
import { transaction } from "../transaction/guarded.ts";
import { toDatabase } from "../transaction/recognition.ts";
import { createRequestBuilder, type WrapOptions } from "./wrap.ts";

/** The options of `wrap`, with the database in whose transactions the function runs. Keys come from the other arguments. */
// biome-ignore lint/suspicious/noExplicitAny: only any is a value of whatever type the function has, on both sides.
export interface TransactionWrapOptions<Args extends readonly unknown[], Handle, T = any, Kept = any>
  extends WrapOptions<Args, T, Kept> {
  /** The database of the transaction: what `guard.transaction` takes. */
  readonly transaction: Handle;
}

/** Whether the options of `wrap` name a database. */
export function isInTransaction(
  options: object | null | undefined,
): options is TransactionWrapOptions<readonly unknown[], DatabaseHandle> {
  return (options as { readonly transaction?: unknown } | null | undefined)?.transaction !== undefined;
}

/** Throws `options-invalid` immediately for bad options. */
export function wrapInTransaction<Args extends readonly unknown[], T, Handle extends DatabaseHandle>(
  guard: object,
  work: (tx: TransactionOf<Handle>, ...args: Args) => T | PromiseLike<T>,
  { transaction: handle, ...options }: TransactionWrapOptions<Args, Handle>,
): (...args: Args) => Promise<T> {
  isFunction("the function to wrap", work);
  if (options.keyFrom !== undefined)
    throw new NevertwiceError(
      "options-invalid",
      "keyFrom cannot be combined with transaction: give a key function of the arguments after the transaction.",
    );
  toDatabase(handle);
  const toRequest = createRequestBuilder<Args>(options);
  return async (...args) =>
    transaction<T>(guard, toRequest(args), handle, (tx: TransactionOf<Handle>) => work(tx, ...args));
}
