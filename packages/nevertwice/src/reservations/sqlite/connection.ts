/** One connection in use for reservations, whoever opened it: what a store of reservations does, done at once. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { PurgeReport } from "../../core/store.ts";
import { type Failure, toFailure } from "../../stores/sqlite/copied-errors.ts";
import { rollBack, type SqliteDatabase } from "../../stores/sqlite/driver.ts";
import { readFacts } from "../../stores/sqlite/facts.ts";
import { isUndone, toStoreError } from "../../stores/sqlite/failures.ts";
import { migrate } from "../../stores/sqlite/schema.ts";
import { BEGIN_WRITING, COMMIT } from "../../stores/sqlite/session-sql.ts";
import type { Facts } from "../../stores/sqlite/settings.ts";
import type { Answer } from "../answer.ts";
import type { Asked } from "../asked.ts";
import type { Found, KeptCommitment, Rules } from "../ledger.ts";
import { type Decided, decide, needsOf } from "../reservations.ts";
import { SCHEMA } from "./sql.ts";
import { createTables, type Tables } from "./tables.ts";

export interface Transacted {
  readonly answers: readonly Answer[];
  /** Why nobody knows whether they were written. */
  readonly doubt?: Failure | undefined;
}

export type Connection = Pick<Tables, "commitments" | "resources" | "keys" | "events" | "checkpoints"> & {
  /** Throws if nothing was written. */
  transact(group: readonly Asked[], rules: Rules): Transacted;
  get(
    namespace: string,
    id: string,
  ): { readonly commitment: KeptCommitment | undefined; readonly now: number };
  elapsed(namespace: string, limit: number): readonly string[];
  purge(limit: number): PurgeReport;
  facts(): Facts;
};

export interface ConnectOptions {
  readonly clock: Clock;
  /** Takes a step that may have to wait for the write lock. */
  waiting<Result>(step: () => Result): Result;
}

export function connect(database: SqliteDatabase, { clock, waiting }: ConnectOptions): Connection {
  waiting(() => migrate(database, SCHEMA));
  const tables = createTables(database);
  const begin = database.prepare(BEGIN_WRITING);
  const commit = database.prepare(COMMIT);

  function decideAndWrite(group: readonly Asked[], rules: Rules): Decided {
    try {
      const now = clock.now();
      const found = lookUp(tables, group, rules.namespace, now);
      const decided = decide(group, found, now, rules, randomUUID());
      tables.write(decided.writes);
      return decided;
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  return {
    ...tables,
    transact(group, rules) {
      // The clock is read with the lock in hand: whoever had to wait is judged by the time at which its turn came.
      waiting(() => void begin.run());
      const { answers } = decideAndWrite(group, rules);
      try {
        commit.run();
        return { answers };
      } catch (error) {
        rollBack(database);
        if (isUndone(error)) throw error;
        return { answers, doubt: toFailure(toStoreError(error)) };
      }
    },
    get: (namespace, id) => ({ commitment: tables.commitment(namespace, id), now: clock.now() }),
    elapsed: (namespace, limit) => tables.elapsed(namespace, clock.now(), limit),
    purge(limit) {
      const now = clock.now();
      if (!tables.hasPurgeable(now)) return { removed: 0, more: false };
      const removed = waiting(() => tables.purge(now, limit));
      return { removed, more: tables.hasPurgeable(now) };
    },
    facts: () => readFacts(database),
  };
}

/** What the actions need, and no more. */
function lookUp(tables: Tables, group: readonly Asked[], namespace: string, now: number): Found {
  const { keyIds, commitmentIds, resources, placements } = needsOf(group);
  const keys = mapOf(keyIds, (id) => tables.key(namespace, id));
  const commitments = mapOf(commitmentIds, (id) => tables.commitment(namespace, id));
  const named = new Set(resources);
  for (const { resource } of commitments.values()) named.add(resource);
  return {
    keys,
    commitments,
    resources: mapOf(named, (name) => tables.resource(namespace, name)),
    elapsed: new Map(
      placements.map(({ resource, most }) => [resource, tables.elapsedOf(namespace, resource, now, most)]),
    ),
  };
}

function mapOf<Value>(
  names: Iterable<string>,
  find: (name: string) => Value | undefined,
): Map<string, Value> {
  const found = new Map<string, Value>();
  for (const name of names) {
    const value = find(name);
    if (value !== undefined) found.set(name, value);
  }
  return found;
}
