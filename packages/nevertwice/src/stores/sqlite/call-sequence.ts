/**
 * The calls of one message, in order and inside one transaction. Each call reads its row, lets core/record.ts decide, and
 * writes what changed.
 */
import { readEach } from "../../core/checked-record.ts";
import type { Clock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { historyIn } from "../../core/kept-history.ts";
import * as machine from "../../core/record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { CompleteRequest, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import { isListed } from "../listing.ts";
import {
  type CallAnswer,
  type CallReply,
  type ClaimCall,
  type ListCall,
  type StoreCall,
  toClaimRequest,
} from "./calls.ts";
import type { ClaimedRows } from "./claimed-rows.ts";
import type { SqliteSettings } from "./durability.ts";
import { affectsOneCall, toStoreError } from "./errors.ts";
import type { ListPart } from "./list-page.ts";
import type { StoredRow } from "./record-row.ts";
import { isLastScan, type RecordRows } from "./records.ts";

/** A reply is built and copied as a whole. Beyond this many characters of outcomes, the remaining calls are not run. */
const MAX_REPLY_LENGTH = 8 * 1_048_576;

export interface SequenceContext {
  readonly table: RecordRows;
  readonly clock: Clock;
  readonly claimed: ClaimedRows | undefined;
  /** Undefined where the settings of the connection cannot be read. */
  readSettings?(): SqliteSettings;
}

/** Throws if the transaction must be undone as a whole. */
export function runEach(context: SequenceContext, calls: readonly StoreCall[]): CallReply {
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

function noSettings(): never {
  throw new NevertwiceError("store-unsafe", "the settings of this database cannot be read.");
}

interface CallSequence {
  readonly outcomes: readonly string[];
  run(call: StoreCall): CallAnswer;
  isReplyFull(): boolean;
  /** Writes the fence that the calls share. */
  end(): void;
}

function createCallSequence(context: SequenceContext): CallSequence {
  const { table, clock, claimed, readSettings: currentSettings = noSettings } = context;
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
        return ["pending", answer.leaseLeftMs, answer.elapsedMs];
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
    return viewOf(kept, now);
  }

  function read(id: string): StoreRecord | undefined {
    const kept = find(id)?.kept;
    const now = clock.now();
    if (kept === undefined || machine.isExpired(kept, now)) return undefined;
    const shown = view(kept, now);
    return { ...shown, history: historyIn(kept, shown.state) };
  }

  function purge(limit: number): number {
    seen.clear();
    claimed?.clear();
    return table.purge(clock.now(), limit);
  }

  /** The matching records among the next rows. A page may take several messages. */
  function list([, filter, wanted, after, count]: ListCall): ListPart {
    const now = clock.now();
    const { namespace, key, before } = filter;
    const request = { namespace, key, before, after, count };
    const rows = table.scan(request);
    const records: StoreRecord[] = [];
    const unreadable: UnreadableRecord[] = [];
    for (const row of rows) {
      const { id } = row.place;
      const looked = readEach(
        [row],
        () => id,
        () => (isListed(row.read(), filter, now) ? [viewById(id, now)] : []),
      );
      unreadable.push(...looked.unreadable);
      records.push(...looked.values.flat());
      if (records.length === wanted || replyLength > MAX_REPLY_LENGTH)
        return { records, unreadable, end: row.place };
    }
    return { records, unreadable, end: isLastScan(request, rows.length) ? undefined : rows.at(-1)?.place };
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
          return ["listed", list(call)];
        case "undecided":
          return ["counted", table.undecided({ namespace: call[1], limit: call[2], now: clock.now() })];
        case "overdue":
          return ["counted", table.overdue(call[1], clock.now())];
        case "namespaces":
          return ["named", table.namespaces({ limit: call[1], after: call[2] })];
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
