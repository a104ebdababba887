/**
 * The Durable Object that keeps records in its own SQLite database. The object runs one step at a time, and each step is
 * synchronous: it reads, decides and writes before any other call of this object is looked at. The runtime holds every
 * response back until the writes before it are stored.
 */
import { type Clock, systemClock } from "../../core/clock.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { checkOptions, isClock, wholeFrom } from "../../core/option-checks.ts";
import { runEach } from "../sqlite/call-sequence.ts";
import { type CallReply, type StoreCall, settledIds } from "../sqlite/calls.ts";
import { prepareQuery } from "../sqlite/client.ts";
import { toStoreError } from "../sqlite/errors.ts";
import { createRecordRows } from "../sqlite/records.ts";
import { migrate } from "../sqlite/schema.ts";
import { NEXT_PURGE, SCHEMA } from "../sqlite-sql.ts";
import type { DurableObjectState, DurableObjectStorage, SqlStorage } from "./bindings.ts";
import { objectDatabase } from "./database.ts";
import { createHeldWaiters, type HeldWaiters } from "./held-waiters.ts";
import { openLayout } from "./layout.ts";
import {
  CALL_PATH,
  type CallMessage,
  decodeMessage,
  encodeReply,
  type ObjectReply,
  WATCH_PATH,
  type WatchMessage,
} from "./messages.ts";
import { createPurgeAlarm, type PurgeAlarm } from "./purge-alarm.ts";

/** Options of `NevertwiceObject`, the third parameter of its constructor. */
export interface NevertwiceObjectOptions {
  /** Decides when leases and retention end; default: the system clock of the machine that runs the object. */
  readonly clock?: Clock;
  /**
   * How many waiters the object wakes. Callers beyond that poll.
   * @default 1_000
   */
  readonly maxWaiters?: number;
  /**
   * How long one waiter is held, in milliseconds. Then it looks itself, and may wait again.
   * @default 15_000 (15 s)
   */
  readonly maxWaitMs?: number;
}

const MAX_WAITERS = 1_000;
const MAX_WAIT_MS = 15_000;

/** What the object has opened with its first call. */
interface OpenObject {
  answer(message: CallMessage): Promise<ObjectReply>;
  readonly alarm: PurgeAlarm;
}

/**
 * Export it from the Worker, and list it in the wrangler configuration: under `durable_objects.bindings`, and under
 * `migrations` in `new_sqlite_classes`. A class that extends it may pass options to its constructor.
 */
export class NevertwiceObject {
  readonly #storage: DurableObjectStorage;
  readonly #clock: Clock;
  readonly #waiters: HeldWaiters;
  #open: OpenObject | undefined;

  constructor(state: DurableObjectState, _env?: unknown, options: NevertwiceObjectOptions = {}) {
    checkOptions(options, { clock: isClock, maxWaiters: wholeFrom(0), maxWaitMs: wholeFrom(1) });
    const { clock = systemClock, maxWaiters = MAX_WAITERS, maxWaitMs = MAX_WAIT_MS } = options;
    this.#storage = state.storage;
    this.#clock = clock;
    this.#waiters = createHeldWaiters({ maxWaiters, maxWaitMs });
  }

  /** Called by the platform: one step of the store. */
  async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const body = await request.text();
    if (pathname === CALL_PATH) return new Response(encodeReply(await this.#answer(decodeMessage(body))));
    if (pathname !== WATCH_PATH) return new Response("not found", { status: 404 });
    const { id } = decodeMessage<WatchMessage>(body);
    return this.#waiters.hold(id, request.signal) ?? new Response("too many waiters", { status: 429 });
  }

  /** Called by the platform: removes expired records. */
  async alarm(): Promise<void> {
    await this.#opened().alarm.rang();
  }

  async #answer(message: CallMessage): Promise<ObjectReply> {
    try {
      return await this.#opened().answer(message);
    } catch (error) {
      return { kind: "answered", reply: failed(toStoreError(error)), bytes: 0 };
    }
  }

  #opened(): OpenObject {
    this.#open ??= openObject(this.#storage, this.#clock, this.#waiters);
    return this.#open;
  }
}

function failed(error: unknown): CallReply {
  return { answers: [["failed", error]], outcomes: [] };
}

function openObject(storage: DurableObjectStorage, clock: Clock, waiters: HeldWaiters): OpenObject {
  const sql = openSql(storage);
  const database = objectDatabase(sql);
  const inTransaction = <Result>(step: () => Result) => storage.transactionSync(step);
  migrate(database, SCHEMA, inTransaction);
  const layout = openLayout(database);
  const table = createRecordRows(database);
  const nextPurge = prepareQuery(database, NEXT_PURGE);
  const context = { table, clock, claimed: undefined };
  const alarm = createPurgeAlarm({
    storage,
    clock,
    purge: (limit) => inTransaction(() => table.purge(clock.now(), limit)),
    nextPurgeAt: () => (nextPurge.first(clock.now())?.[0] ?? undefined) as number | undefined,
  });

  function run(call: StoreCall): CallReply {
    const calls = [call];
    const reply = inTransaction(() => runEach(context, calls));
    waiters.wake(settledIds(calls, reply.answers));
    return reply;
  }

  return {
    alarm,
    async answer(message) {
      if (!layout.allows(message)) return { kind: "unconfirmed" };
      const reply = run(message.call);
      await alarm.noticed(message.call);
      return { kind: "answered", reply, bytes: sql.databaseSize };
    },
  };
}

/** A class that keeps key-value pairs instead has `sql` too, but no statement works. */
function openSql({ sql }: DurableObjectStorage): SqlStorage {
  try {
    sql.exec("SELECT 1");
    return sql;
  } catch (error) {
    throw /SQL is not enabled/.test(String(error)) ? withoutSqlite(error) : error;
  }
}

function withoutSqlite(cause: unknown): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    "the Durable Object class has no SQLite database; list it under new_sqlite_classes in the migrations of the wrangler configuration, not under new_classes.",
    { cause },
  );
}
