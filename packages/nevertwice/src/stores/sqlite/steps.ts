/**
 * The calls of one message, in one transaction and in their order: each reads its row, lets core/record.ts decide, and
 * writes what changed.
 */
import type { Clock } from "../../core/clock.ts";
import * as machine from "../../core/record.ts";
import type { StoreRecord } from "../../core/store.ts";
import { type Answer, type Call, type ClaimCall, type ListCall, type Reply, toClaim } from "./calls.ts";
import { isBusy, isOfOneCall, toStoreError } from "./failures.ts";
import type { Facts } from "./settings.ts";
import type { Found, Table } from "./table.ts";

/** Past so many characters of outcomes the rest of a message is asked again: a reply is built and copied whole. */
const MAX_REPLY_LENGTH = 8 * 1_048_576;
/** How many rows a list looks at in one message: a few milliseconds, so that it does not hold up the claims behind it. */
const SCAN_ROWS = 500;

/** What steps are taken on. */
export interface Ground {
  readonly table: Table;
  readonly clock: Clock;
  readFacts(): Facts;
}

/**
 * The transaction starts as a reader's. Its first write asks for the write lock, and SQLite grants it, at once or not at
 * all, only if nobody has written since our first read. So a message of replays takes no lock and flushes nothing,
 * and what was judged is what is written over. Where it is not granted, all is judged again under the lock.
 * Throws if the transaction failed as a whole: then nothing is written.
 */
export function runCalls(ground: Ground, calls: readonly Call[]): Reply {
  const { table } = ground;
  try {
    return inTransaction(table.begin);
  } catch (error) {
    if (!isBusy(error)) throw toStoreError(error);
  }
  try {
    return inTransaction(table.beginWriting);
  } catch (error) {
    throw toStoreError(error);
  }

  function inTransaction(begin: () => void): Reply {
    begin();
    try {
      const reply = runEach(ground, calls);
      table.commit();
      return reply;
    } catch (error) {
      table.rollback();
      throw error;
    }
  }
}

function runEach(ground: Ground, calls: readonly Call[]): Reply {
  const turn = startTurn(ground);
  const answers = calls.map((call, index) => {
    if (index > 0 && turn.isReplyFull()) return undefined;
    try {
      return turn.run(call);
    } catch (error) {
      if (!isOfOneCall(error)) throw error;
      return ["failed", toStoreError(error)] as const;
    }
  });
  turn.end();
  return { answers, outcomes: turn.outcomes };
}

interface Turn {
  readonly outcomes: readonly string[];
  run(call: Call): Answer;
  isReplyFull(): boolean;
  /** Writes what all calls share. */
  end(): void;
}

function startTurn({ table, clock, readFacts }: Ground): Turn {
  /** Read once a turn, however many calls ask for it. */
  const seen = new Map<string, Found | undefined>();
  const outcomes: string[] = [];
  const places = new Map<string, number>();
  let replyLength = 0;
  let lastFence = 0;

  function find(id: string): Found | undefined {
    if (seen.has(id)) return seen.get(id);
    const found = table.find(id);
    seen.set(id, found);
    return found;
  }

  function write(found: Found | undefined, kept: machine.Kept): void {
    seen.delete(kept.id);
    table.write(found, kept);
  }

  function nextFence(after: number): number {
    if (lastFence === 0) lastFence = table.lastFence();
    lastFence = Math.max(lastFence + 1, after + 1, Math.floor(clock.now() * 1_000));
    return lastFence;
  }

  function claim(call: ClaimCall): Answer {
    const request = toClaim(call);
    const found = find(request.id);
    const { answer, write: kept } = machine.claimRecord(found?.kept, request, clock.now(), nextFence);
    if (kept !== undefined) write(found, kept);
    switch (answer.status) {
      case "new":
        return ["new", answer.fence, answer.number, answer.tookOver];
      case "pending":
        return ["pending", answer.leaseLeftMs];
      case "completed":
        return ["completed", placeOf(answer.outcome)];
      case "conflict":
        return ["conflict", answer.state];
      case "unknown":
        return ["unknown", answer.fence];
    }
  }

  function placeOf(outcome: string): number {
    const known = places.get(outcome);
    if (known !== undefined) return known;
    replyLength += outcome.length;
    places.set(outcome, outcomes.length);
    return outcomes.push(outcome) - 1;
  }

  function settle(id: string, decide: (kept: machine.Kept | undefined) => machine.Step): boolean {
    const found = find(id);
    const { answer, write: kept } = decide(found?.kept);
    if (kept !== undefined) write(found, kept);
    return answer;
  }

  function forget(id: string, fence: number, reopen: boolean): boolean {
    const found = find(id);
    const step = machine.forgetRecord(found?.kept, { fence, reopen }, clock.now());
    if (!step.answer || found === undefined) return false;
    if (step.write !== undefined) write(found, step.write);
    else {
      seen.delete(id);
      table.remove(found);
    }
    return true;
  }

  function view(kept: machine.Kept, now: number): StoreRecord {
    replyLength += kept.outcome?.length ?? 0;
    return machine.viewOf(kept, now);
  }

  function read(id: string): StoreRecord | undefined {
    const kept = find(id)?.kept;
    const now = clock.now();
    return kept === undefined || machine.isExpired(kept, now) ? undefined : view(kept, now);
  }

  function purge(limit: number): number {
    seen.clear();
    return table.purge(clock.now(), limit);
  }

  /** What matches among the next rows, and where to go on; a page may take several messages. */
  function list([, namespace, scope, state, limit, after]: ListCall): Answer {
    const now = clock.now();
    const rows = table.scan(after, SCAN_ROWS);
    const records: StoreRecord[] = [];
    for (const row of rows) {
      if (row.parts?.namespace !== namespace || (scope !== undefined && row.parts.scope !== scope)) continue;
      if (machine.isExpired(row, now) || (state !== undefined && machine.stateOf(row, now) !== state))
        continue;
      records.push(view((find(row.id) as Found).kept, now));
      if (records.length === limit || replyLength > MAX_REPLY_LENGTH) return ["listed", records, row.id];
    }
    return ["listed", records, rows.length < SCAN_ROWS ? undefined : rows.at(-1)?.id];
  }

  return {
    outcomes,
    run(call) {
      switch (call[0]) {
        case "claim":
          return claim(call);
        case "complete": {
          const [, id, token, outcome, retentionMs] = call;
          const request = { id, token, outcome, retentionMs };
          return settle(id, (kept) => machine.completeRecord(kept, request, clock.now()));
        }
        case "abandon":
          return settle(call[1], (kept) => machine.abandonRecord(kept, call[2], call[3], clock.now()));
        case "renew":
          return settle(call[1], (kept) => machine.renewRecord(kept, call[2], call[3], clock.now()));
        case "forget":
          return forget(call[1], call[2], call[3]);
        case "read":
          return ["read", read(call[1])];
        case "purge":
          return ["purged", purge(call[1])];
        case "list":
          return list(call);
        case "settings":
          return ["settings", readFacts()];
      }
    },
    isReplyFull: () => replyLength > MAX_REPLY_LENGTH,
    end() {
      if (lastFence > 0) table.keepFence(lastFence);
    },
  };
}
