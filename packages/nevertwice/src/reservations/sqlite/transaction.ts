/** A group of actions as one SQLite transaction: write lock, clock, rows, decision, writes, commit. */
import type { Clock } from "../../core/clock.ts";
import { BEGIN_WRITING, COMMIT, rollBack, type SqliteDatabase } from "../../stores/sqlite/client.ts";
import type { ConnectionOptions } from "../../stores/sqlite/connection-calls.ts";
import { type CopiedError, copyError, hasWrittenNothing, toStoreError } from "../../stores/sqlite/errors.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { decide, type GroupDecision, neededRows } from "../decision.ts";
import type { KeptCommitment, LockedRows, PlacementNeed, Rules } from "../store.ts";
import { createTimeOrderedId } from "../time-ordered-id.ts";
import type { ReservationTables } from "./tables.ts";

export interface TransactionResult {
  readonly answers: readonly Answer[];
  /** Set if it is not known whether the transaction was committed. */
  readonly doubt?: CopiedError | undefined;
}

/** Throws if nothing was written. */
export type Transact = (group: readonly ActionRequest[], rules: Rules) => TransactionResult;

export function createTransact(
  database: SqliteDatabase,
  tables: ReservationTables,
  { clock, waiting }: ConnectionOptions,
): Transact {
  const begin = database.prepare(BEGIN_WRITING);
  const commit = database.prepare(COMMIT);

  function decideOrRollBack(group: readonly ActionRequest[], rules: Rules): GroupDecision {
    try {
      return decideAndWrite(tables, clock, group, rules);
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  return (group, rules) => {
    // Take the lock before reading the clock: a transaction that waited is judged by the time at which it got the lock.
    waiting(() => void begin.run());
    const { answers } = decideOrRollBack(group, rules);
    try {
      commit.run();
      return { answers };
    } catch (error) {
      rollBack(database);
      if (hasWrittenNothing(error)) throw error;
      return { answers, doubt: copyError(toStoreError(error)) };
    }
  };
}

/** In the transaction that is open. */
export function decideAndWrite(
  tables: ReservationTables,
  clock: Clock,
  group: readonly ActionRequest[],
  rules: Rules,
): GroupDecision {
  const now = clock.now();
  const found = readRows(tables, group, rules.namespace, now);
  const decision = decide(group, found, now, rules, createTimeOrderedId());
  tables.write(decision.writes);
  return decision;
}

/** Reads only the rows that the actions need. */
function readRows(
  tables: ReservationTables,
  group: readonly ActionRequest[],
  namespace: string,
  now: number,
): LockedRows {
  const { keyIds, commitmentIds, resources, placements } = neededRows(group);
  const keys = findAll(keyIds, (id) => tables.key(namespace, id));
  const commitments = findAll(commitmentIds, (id) => tables.commitment(namespace, id));
  const names = new Set(resources);
  for (const { resource } of commitments.values()) names.add(resource);
  return {
    keys,
    commitments,
    resources: findAll(names, (name) => tables.resource(namespace, name)),
    elapsed: readElapsedOnce(placements, (resource, most) =>
      tables.elapsedOfResource(namespace, resource, now, most),
    ),
  };
}

/** Reads the elapsed holds of a resource when they are asked for, which is before anything is written. */
function readElapsedOnce(
  placements: readonly PlacementNeed[],
  read: (resource: string, most: number) => readonly KeptCommitment[],
): LockedRows["elapsed"] {
  const known = new Map<string, readonly KeptCommitment[]>();
  return {
    get(resource) {
      const most = placements.find((placement) => placement.resource === resource)?.most ?? 0;
      const elapsed = known.get(resource) ?? read(resource, most);
      known.set(resource, elapsed);
      return elapsed;
    },
  };
}

function findAll<Value>(
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
