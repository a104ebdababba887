/**
 * Records in one SQLite file. `{ file }` opens it in a worker thread, in WAL mode and flushed at every commit; several
 * processes of one machine may share it. `{ database }` uses a connection of the caller's, in the caller's thread. Either
 * way, calls that come together are committed together.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { ClaimAnswer, ListPage, Store, StoreRecord } from "../core/store.ts";
import { createBatch } from "./batch.ts";
import { type Answer, type Call, fromAnswer, fromClaim, type Reply } from "./sqlite/calls.ts";
import type { Engine } from "./sqlite/engine.ts";
import { runInThread } from "./sqlite/in-thread.ts";
import { runInWorker } from "./sqlite/in-worker.ts";
import { isFailed } from "./sqlite/messages.ts";
import { type SqliteDatabaseOptions, type SqliteFileOptions, sourceOf } from "./sqlite/options.ts";
import { type Facts, judge } from "./sqlite/settings.ts";
import { createWatchers } from "./sqlite/watchers.ts";

export type { SqliteDatabase, SqliteStatement, SqlValue } from "./sqlite/driver.ts";
export type { SqliteDatabaseOptions, SqliteFileOptions } from "./sqlite/options.ts";

export type SqliteStoreOptions = SqliteFileOptions | SqliteDatabaseOptions;

/** A commit of so many takes a few milliseconds: renewals do not wait longer behind a crowd of claims. */
const MAX_CALLS = 500;
const MAX_MESSAGE_LENGTH = 4 * 1_048_576;

/** What became of a call, and the outcomes that its reply shares. */
interface Told {
  readonly answer: Answer;
  readonly outcomes: readonly string[];
}

export function sqliteStore(options: SqliteStoreOptions): Store {
  const watchers = createWatchers(
    (id) => engine.watch(id),
    (id) => engine.unwatch(id),
  );
  const engine = engineFor(options, watchers.wake);
  const batch = createBatch<Call, Told>({
    send,
    alone: async (call) => (await send([call]))[0] as Told,
    isUrgent: ([kind]) => kind === "complete" || kind === "abandon" || kind === "renew",
    sizeOf: (call) => (call[0] === "complete" && typeof call[3] === "string" ? call[3].length : 0),
    maxCalls: MAX_CALLS,
    maxBytes: MAX_MESSAGE_LENGTH,
  });
  let underWay = 0;
  let onIdle: (() => void) | undefined;
  let closing: Promise<void> | undefined;

  async function send(calls: readonly Call[]): Promise<readonly (Told | undefined)[]> {
    const { answers, outcomes } = await engine.run(calls).catch((error) => refusalOf(error, calls));
    if (!watchers.isEmpty()) watchers.wake(settledBy(calls, answers));
    return answers.map((answer) => (answer === undefined ? undefined : { answer, outcomes }));
  }

  function refuseIfClosed(): void {
    if (closing !== undefined) throw new NevertwiceError("unavailable", "the SQLite store is closed.");
  }

  async function ask<Value>(call: Call): Promise<Value> {
    refuseIfClosed();
    underWay++;
    try {
      const { answer, outcomes } = await batch.run(call);
      if (isFailed(answer)) throw answer[1];
      return fromAnswer(answer, outcomes) as Value;
    } finally {
      if (--underWay === 0) onIdle?.();
    }
  }

  async function close(): Promise<void> {
    if (underWay > 0) {
      await new Promise<void>((idle) => {
        onIdle = idle;
      });
    }
    watchers.clear();
    await engine.close();
  }

  return {
    claim: (request) => ask<ClaimAnswer>(fromClaim(request)),
    complete: ({ id, token, outcome, retentionMs }) => ask(["complete", id, token, outcome, retentionMs]),
    abandon: ({ id, token, as }) => ask(["abandon", id, token, as]),
    renew: ({ id, token, leaseMs }) => ask(["renew", id, token, leaseMs]),
    read: (id) => ask<StoreRecord | undefined>(["read", id]),
    forget: ({ id, fence, reopen = false }) => ask(["forget", id, fence, reopen]),

    async purge(limit) {
      const removed = await ask<number>(["purge", limit]);
      return { removed, more: removed >= limit };
    },

    async list({ namespace, scope, state, limit, after }) {
      const records: StoreRecord[] = [];
      let from = after;
      // One more than asked for tells whether there is another page. Each message looks at some rows only.
      do {
        const wanted = limit + 1 - records.length;
        const page = await ask<ListPage>(["list", namespace, scope, state, wanted, from]);
        records.push(...page.records);
        from = page.next;
      } while (from !== undefined && records.length <= limit);
      if (records.length <= limit) return { records };
      return { records: records.slice(0, limit), next: records[limit - 1]?.id };
    },

    async watch({ id, wake }) {
      refuseIfClosed();
      return watchers.watch(id, wake);
    },

    settings: async () => judge(await ask<Facts>(["settings"])),

    close() {
      closing ??= close();
      return closing;
    },
  };
}

function engineFor(options: SqliteStoreOptions, wake: (ids: Iterable<string>) => void): Engine {
  const source = sourceOf(options, "for records in memory use memoryStore()");
  return "database" in source ? runInThread({ ...source, wake }) : runInWorker({ ...source, wake });
}

/** A store that cannot be used says so to every call at once; what may be the fault of one call is told by repeating each. */
function refusalOf(error: unknown, calls: readonly Call[]): Reply {
  if (!isNevertwiceError(error) || error.code === "store-full") throw error;
  return { answers: calls.map(() => ["failed", error]), outcomes: [] };
}

/** The ids whose waiters have something to ask for. */
function settledBy(calls: readonly Call[], answers: Reply["answers"]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const [index, call] of calls.entries()) {
    if (answers[index] !== true) continue;
    if (call[0] === "complete" || call[0] === "abandon" || call[0] === "forget") ids.add(call[1]);
  }
  return ids;
}
