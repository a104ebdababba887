/**
 * Runs the calls of one message on a connection, in one transaction and in order. Each call reads its row, lets
 * core/record.ts decide, and writes what changed.
 */

import { readEach } from "../../core/checked-record.ts";
import type { Clock } from "../../core/clock.ts";
import * as machine from "../../core/record.ts";
import type { CompleteRequest, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import { SCHEMA } from "../sqlite-sql.ts";
import {
  type CallAnswer,
  type CallReply,
  type ClaimCall,
  type ListCall,
  type StoreCall,
  toClaimRequest,
} from "./calls.ts";
import { type ClaimedRows, createClaimedRows } from "./claimed-rows.ts";
import type { SqliteDatabase } from "./client.ts";
import { readSettings, type SqliteSettings } from "./durability.ts";
import { affectsOneCall, isBusy, toStoreError } from "./errors.ts";
import { createRecordTable, type RecordTable, type StoredRow } from "./records.ts";
import { migrate } from "./schema.ts";

/** A reply is built and copied as a whole. Beyond this many characters of outcomes, the remaining calls are not run. */
const MAX_REPLY_LENGTH = 8 * 1_048_576;
/** How many rows a list reads in one message: a few milliseconds, so that the claims behind it need not wait long. */
const SCAN_ROWS = 500;

export interface CallRunner {
  readonly table: RecordTable;
  /** Throws if the transaction failed as a whole; then nothing was written. */
  run(calls: readonly StoreCall[]): CallReply;
  /** Runs the calls in a transaction that is open on the connection. */
  runInside(calls: readonly StoreCall[]): CallReply;
}

export interface CallRunnerOptions {
  readonly clock: Clock;
  /** Nothing else uses the connection, so the runner may remember what it wrote (claimed-rows.ts). */
  readonly isAlone?: boolean;
  /** Runs a step that may have to wait for the write lock. */
  waiting<Result>(step: () => Result): Result;
}

/** Migrates the database and prepares its statements. Throws one of our errors if the database cannot be used. */
export function createCallRunner(database: SqliteDatabase, options: CallRunnerOptions): CallRunner {
  const { clock, waiting, isAlone = false } = options;
  try {
    waiting(() => migrate(database, SCHEMA));
    const table = createRecordTable(database, waiting);
    const claimed = isAlone ? createClaimedRows() : undefined;
    const context = { table, clock, claimed, readSettings: () => readSettings(database) };
    return { table, run: (calls) => runCalls(context, calls), runInside: (calls) => runEach(context, calls) };
  } catch (error) {
    throw toStoreError(error);
  }
}

interface RunnerContext {
  readonly table: RecordTable;
  readonly clock: Clock;
  readonly claimed: ClaimedRows | undefined;
  readSettings(): SqliteSettings;
}

/**
 * The transaction starts as a reader. Its first write requests the write lock. SQLite grants the lock immediately or not at
 * all, and only if no other connection has written since the first read. So a message of replays takes no lock and flushes
 * nothing, and every write replaces exactly what was read. If SQLite refuses the lock, all calls run again under the lock.
 *
 * A reader judges records by the time before its first read. By a later time, a record that another process renewed in the
 * meantime would look lapsed. Under the write lock no other process renews anything, so the clock may advance.
 */
function runCalls(context: RunnerContext, calls: readonly StoreCall[]): CallReply {
  const { table, clock, claimed } = context;
  const startedAt = clock.now();
  try {
    return inTransaction(table.begin, { ...context, clock: { now: () => startedAt } });
  } catch (error) {
    if (!isBusy(error)) throw toStoreError(error);
  }
  try {
    return inTransaction(table.beginWriting, context);
  } catch (error) {
    throw toStoreError(error);
  }

  function inTransaction(begin: () => void, judgedBy: RunnerContext): CallReply {
    begin();
    try {
      claimed?.begin(table.dataVersion());
      const reply = runEach(judgedBy, calls);
      table.commit();
      return reply;
    } catch (error) {
      claimed?.clear();
      table.rollback();
      throw error;
    }
  }
}

function runEach(context: RunnerContext, calls: readonly StoreCall[]): CallReply {
  const sequence = createCallSequence(context);
  const answers = calls.map((call, index) => {
    if (index > 0 && sequence.isReplyFull()) return undefined;
    try {
      return sequence.run(call);
    } catch (error) {
      if (!affectsOneCall(error)) throw error;
      return ["failed", toStoreError(error)] as const;
    }
  });
  sequence.end();
  return { answers, outcomes: sequence.outcomes };
}

const readRowId = ({ id }: { readonly id: string }) => id;

interface CallSequence {
  readonly outcomes: readonly string[];
  run(call: StoreCall): CallAnswer;
  isReplyFull(): boolean;
  /** Writes the fence that the calls share. */
  end(): void;
}

function createCallSequence(context: RunnerContext): CallSequence {
  const { table, clock, claimed, readSettings: currentSettings } = context;
  /** Rows read in this transaction, so that many calls for one id read it once. */
  const seen = new Map<string, StoredRow | undefined>();
  const outcomes: string[] = [];
  const outcomeIndexes = new Map<string, number>();
  let replyLength = 0;
  let lastFence = 0;

  function find(id: string): StoredRow | undefined {
    if (seen.has(id)) return seen.get(id);
    const found = claimed?.get(id) ?? table.find(id);
    seen.set(id, found);
    return found;
  }

  /** The row of this id is about to change. */
  function unsee(id: string): void {
    seen.delete(id);
    claimed?.delete(id);
  }

  function write(found: StoredRow | undefined, kept: machine.Kept): void {
    unsee(kept.id);
    const written = table.write(found, kept);
    if (written !== undefined) claimed?.add(written);
  }

  function nextFence(after: number): number {
    if (lastFence === 0) lastFence = table.lastFence();
    lastFence = Math.max(lastFence + 1, after + 1, Math.floor(clock.now() * 1_000));
    return lastFence;
  }

  function claim(call: ClaimCall): CallAnswer {
    const request = toClaimRequest(call);
    const found = find(request.id);
    const { answer, write: kept } = machine.claimRecord(found?.kept, request, clock.now(), nextFence);
    if (kept !== undefined) write(found, kept);
    switch (answer.status) {
      case "new":
        replyLength += kept?.steps?.length ?? 0;
        return ["new", answer.fence, answer.number, answer.tookOver, answer.steps];
      case "pending":
        return ["pending", answer.leaseLeftMs];
      case "completed":
        return ["completed", outcomeIndex(answer.outcome)];
      case "conflict":
        return ["conflict", answer.state];
      case "unknown":
        return ["unknown", answer.fence];
    }
  }

  function outcomeIndex(outcome: string): number {
    const known = outcomeIndexes.get(outcome);
    if (known !== undefined) return known;
    replyLength += outcome.length;
    outcomeIndexes.set(outcome, outcomes.length);
    return outcomes.push(outcome) - 1;
  }

  function settle(id: string, decide: (kept: machine.Kept | undefined) => machine.Step): boolean {
    const found = find(id);
    const { answer, write: kept } = decide(found?.kept);
    if (kept !== undefined) write(found, kept);
    return answer;
  }

  function complete(request: CompleteRequest): boolean {
    const found = find(request.id);
    const { answer, write: kept } = machine.completeRecord(found?.kept, request, clock.now());
    if (found !== undefined && kept !== undefined) {
      unsee(request.id);
      table.complete(found, kept);
    }
    return answer;
  }

  function forget(id: string, fence: number, reopen: boolean): boolean {
    const found = find(id);
    const step = machine.forgetRecord(found?.kept, { fence, reopen }, clock.now());
    if (!step.answer || found === undefined) return false;
    if (step.write !== undefined) write(found, step.write);
    else {
      unsee(id);
      table.remove(found);
    }
    return true;
  }

  function view(kept: machine.Kept, now: number): StoreRecord {
    replyLength += (kept.outcome?.length ?? 0) + (kept.steps?.length ?? 0);
    return machine.viewOf(kept, now);
  }

  function read(id: string): StoreRecord | undefined {
    const kept = find(id)?.kept;
    const now = clock.now();
    return kept === undefined || machine.isExpired(kept, now) ? undefined : view(kept, now);
  }

  function purge(limit: number): number {
    seen.clear();
    claimed?.clear();
    return table.purge(clock.now(), limit);
  }

  /** The matching records among the next rows, and the id to continue after. A page may take several messages. */
  function list([, namespace, scope, state, limit, after]: ListCall): CallAnswer {
    const now = clock.now();
    const rows = table.scan(after, SCAN_ROWS);
    const records: StoreRecord[] = [];
    const unreadable: UnreadableRecord[] = [];
    const matches = (kept: machine.Kept) =>
      kept.parts?.namespace === namespace &&
      (scope === undefined || kept.parts.scope === scope) &&
      !machine.isExpired(kept, now) &&
      (state === undefined || machine.stateOf(kept, now) === state);
    for (const row of rows) {
      const seenRow = readEach([row], readRowId, () => (matches(row.read()) ? [viewById(row.id, now)] : []));
      unreadable.push(...seenRow.unreadable);
      records.push(...seenRow.values.flat());
      if (records.length === limit || replyLength > MAX_REPLY_LENGTH)
        return ["listed", records, row.id, unreadable];
    }
    return ["listed", records, rows.length < SCAN_ROWS ? undefined : rows.at(-1)?.id, unreadable];
  }

  function viewById(id: string, now: number): StoreRecord {
    return view((find(id) as StoredRow).kept, now);
  }

  return {
    outcomes,
    run(call) {
      switch (call[0]) {
        case "claim":
          return claim(call);
        case "complete": {
          const [, id, token, outcome, retentionMs] = call;
          return complete({ id, token, outcome, retentionMs });
        }
        case "abandon":
          return settle(call[1], (kept) => machine.abandonRecord(kept, call[2], call[3], clock.now()));
        case "renew":
          return settle(call[1], (kept) => machine.renewRecord(kept, call[2], call[3], clock.now()));
        case "keep-step": {
          const [, id, token, name, outcome] = call;
          const request = { id, token, name, outcome };
          return settle(id, (kept) => machine.keepStepRecord(kept, request, clock.now()));
        }
        case "forget":
          return forget(call[1], call[2], call[3]);
        case "read":
          return ["read", read(call[1])];
        case "purge":
          return ["purged", purge(call[1])];
        case "list":
          return list(call);
        case "settings":
          return ["settings", currentSettings()];
      }
    },
    isReplyFull: () => replyLength > MAX_REPLY_LENGTH,
    end() {
      if (lastFence > 0) table.keepFence(lastFence);
    },
  };
}
