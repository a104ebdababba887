/** What a store of reservations asks its connection, from another thread or its own. */
import { toStoreError } from "../../stores/sqlite/failures.ts";
import type { Connection } from "./connection.ts";

export type Method = keyof Connection;
export type Call = readonly [method: Method, values: readonly unknown[]];

/** Fails in the store's words, also where the database cannot be used at all. */
export function runOn(open: () => Connection): (call: Call) => unknown {
  const connection = inOurWords(open);
  return ([method, values]) =>
    inOurWords(() => (connection[method] as (...values: readonly unknown[]) => unknown)(...values));
}

function inOurWords<Result>(step: () => Result): Result {
  try {
    return step();
  } catch (error) {
    throw toStoreError(error);
  }
}
