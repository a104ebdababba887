/**
 * Reservations in one SQLite file. `{ file }` opens it in a worker thread, in WAL mode and flushed at every commit; several
 * processes of one machine may share it. `{ database }` uses a connection of the caller's, in the caller's thread. A group
 * of actions is one transaction and one flush. The store of a guard may live in the same file.
 */
import { systemClock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { fromFailure } from "../stores/sqlite/copied-errors.ts";
import { type SqliteDatabaseOptions, type SqliteFileOptions, sourceOf } from "../stores/sqlite/options.ts";
import { judge } from "../stores/sqlite/settings.ts";
import type { Epitaph } from "../stores/sqlite/thread.ts";
import { MayBeWritten, NotWritten, type ReservationStore } from "./ledger.ts";
import type { Method } from "./sqlite/calls.ts";
import type { Connection } from "./sqlite/connection.ts";
import { engineFor } from "./sqlite/engine.ts";

export type { SqliteDatabase, SqliteStatement, SqlValue } from "../stores/sqlite/driver.ts";
export type { SqliteDatabaseOptions, SqliteFileOptions } from "../stores/sqlite/options.ts";
export type SqliteReservationsOptions = SqliteFileOptions | SqliteDatabaseOptions;

/** Nobody knows how far a transaction came that a thread had begun when it ended. */
const unlessBegun: Epitaph = (error, hasBegun) => (hasBegun ? new MayBeWritten([], error) : error);

/** Fails with `options-invalid` on a bad option, by name; what is wrong with the file is told to the first call. */
export function sqliteReservations(options: SqliteReservationsOptions): ReservationStore {
  const source = sourceOf(options, "for reservations in memory use memoryReservations()");
  const { clock } = { clock: systemClock, ...source };
  const engine = engineFor(source);
  let closing: Promise<void> | undefined;

  async function ask<Name extends Method>(
    method: Name,
    values: Parameters<Connection[Name]>,
    epitaph?: Epitaph,
  ): Promise<ReturnType<Connection[Name]>> {
    if (closing !== undefined) throw new NevertwiceError("unavailable", "the SQLite store is closed.");
    return (await engine.run([method, values], epitaph)) as ReturnType<Connection[Name]>;
  }

  return {
    async transact(group, rules) {
      const { answers, doubt } = await ask("transact", [group, rules], unlessBegun).catch((error) => {
        throw error instanceof MayBeWritten ? error : new NotWritten(error);
      });
      if (doubt !== undefined) throw new MayBeWritten(answers, fromFailure(doubt));
      return answers;
    },
    get: (namespace, id) => ask("get", [namespace, id]),
    commitments: (query) => ask("commitments", [query]),
    resources: (query) => ask("resources", [query]),
    keys: (query) => ask("keys", [query]),
    events: (query) => ask("events", [query]),
    checkpoints: (query) => ask("checkpoints", [query]),
    elapsed: (namespace, limit) => ask("elapsed", [namespace, limit]),
    purge: (limit) => ask("purge", [limit]),
    // A worker reads the same clock of this machine.
    now: async () => clock.now(),
    settings: async () => judge(await ask("facts", [])),
    refusesAvailable:
      "settings" in source
        ? "with { file } the transactions run in a worker thread, and a function cannot be sent there; open the file yourself and give { database }"
        : undefined,
    close() {
      closing ??= engine.close();
      return closing;
    },
  };
}
