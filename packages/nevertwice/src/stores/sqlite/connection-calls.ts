/** Calls of the methods of a synchronous connection, in this thread or in a worker, for stores beside that of records. */
import type { Clock } from "../../core/clock.ts";
import type { SqliteDatabase } from "./client.ts";
import { toStoreError } from "./errors.ts";

/** A call of a method, in a form that can be sent to a worker thread. */
export type ConnectionCall<Method> = readonly [method: Method, values: readonly unknown[]];

export interface ConnectionOptions {
  readonly clock: Clock;
  /** Runs a step that may have to wait for the write lock. */
  waiting<Result>(step: () => Result): Result;
}

/** Creates the methods of a connection. */
export type Connect<Connection> = (database: SqliteDatabase, options: ConnectionOptions) => Connection;

/** Runs calls on a new connection. All errors, also those of connecting, are store errors. */
export function createCaller<Connection>(connect: Connect<Connection>) {
  return (
    database: SqliteDatabase,
    options: ConnectionOptions,
  ): ((call: ConnectionCall<keyof Connection>) => unknown) => {
    const connection = withStoreErrors(() => connect(database, options));
    return ([method, values]) =>
      withStoreErrors(() => (connection[method] as (...values: readonly unknown[]) => unknown)(...values));
  };
}

/**
 * Runs calls in the thread and on the connection of the application, which is used from the first call on. It has its own
 * busy timeout, so no step waits here.
 */
export function callInThisThread<Connection>(
  connect: Connect<Connection>,
  { database, clock }: { readonly database: SqliteDatabase; readonly clock: Clock },
): (call: ConnectionCall<keyof Connection>) => unknown {
  let run: ((call: ConnectionCall<keyof Connection>) => unknown) | undefined;
  return (call) => {
    run ??= createCaller(connect)(database, { clock, waiting: (step) => step() });
    return run(call);
  };
}

export function withStoreErrors<Result>(step: () => Result): Result {
  try {
    return step();
  } catch (error) {
    throw toStoreError(error);
  }
}
