/** Runs calls on a connection of the caller's, in the caller's thread. */
import type { Clock } from "../../core/clock.ts";
import { type Connection, connect } from "./connection.ts";
import type { SqliteDatabase } from "./driver.ts";
import type { Engine } from "./engine.ts";
import { createLookout } from "./lookout.ts";

export interface InThreadOptions {
  readonly database: SqliteDatabase;
  readonly clock: Clock;
  wake(ids: readonly string[]): void;
}

export function runInThread({ database, clock, wake }: InThreadOptions): Engine {
  let connection: Connection | undefined;
  const lookout = createLookout({ tableOf: () => connection?.table, wake });
  return {
    async run(calls) {
      // How long to wait for a lock is set on the caller's connection.
      connection ??= connect(database, { clock, waiting: (step) => step() });
      return connection.run(calls);
    },
    watch: (id) => lookout.add([id]),
    unwatch: lookout.remove,
    // The connection is the caller's: it stays open.
    close: async () => lookout.stop(),
  };
}
