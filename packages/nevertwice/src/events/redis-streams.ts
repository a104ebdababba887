/**
 * Redis Streams: the entries of one stream, read by one consumer group, each processed once. Another consumer takes over the
 * entries of a consumer that died. Entries stay pending in Redis until they are acknowledged: none is only in memory.
 */
import { newUuid } from "#platform";
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey, type Key } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import {
  type Check,
  checkOptions,
  givenOptions,
  isFunction,
  isText,
  wholeFrom,
} from "../core/option-checks.ts";
import type { Consumer } from "./consumer.ts";
import type { Delivery, Rejection } from "./delivery.ts";
import { type Drained, type DrainOptions, waitForDrain } from "./in-flight-work.ts";
import { type StreamClient, toStreamConnection } from "./redis-streams/client.ts";
import { readEntries } from "./redis-streams/entry-reader.ts";
import { createEntrySlots } from "./redis-streams/entry-slots.ts";
import type { StreamEvent } from "./redis-streams/event.ts";
import { createGroup, type Group, type StreamEntry } from "./redis-streams/group.ts";

export type { StreamClient } from "./redis-streams/client.ts";
export type { StreamEvent } from "./redis-streams/event.ts";
export type { StreamEntry } from "./redis-streams/group.ts";

/** Options of `redisStream`. */
export interface RedisStreamOptions {
  /** A client of ioredis or node-redis. */
  readonly client: StreamClient;
  /** A second connection that only waits for entries (BLOCK). Without it, the stream is polled every `pollMs`. */
  readonly reader?: StreamClient | undefined;
  /** The name of the stream. */
  readonly stream: string;
  /** The name of the consumer group. Each group processes every entry once. */
  readonly group: string;
  /** This process's name in the group. No two running processes may share it. Default: a random one. */
  readonly name?: string | undefined;
  /** Where a new group begins: an entry's id, "0" (default) for all entries, "$" for future ones. */
  readonly from?: string | undefined;
  /** How many entries are processed at once. Default: 16. */
  readonly concurrency?: number | undefined;
  /** Another consumer takes over an entry that has been idle for this long. Default: 60,000. Must be more than a third of the lease. */
  readonly claimIdleMs?: number | undefined;
  /** How long one read waits for new entries. Default: 500. */
  readonly pollMs?: number | undefined;
  /** The stream that rejected entries are copied to. Give this or `onRejected`. */
  readonly deadLetter?: string | undefined;
  /** Stores a rejected entry where operators look. The entry is acknowledged once this resolves. */
  readonly onRejected?: ((entry: StreamEntry, delivery: Rejection) => unknown) | undefined;
  /** Called with each event. What it throws is ignored. */
  readonly onEvent?: ((event: StreamEvent) => unknown) | undefined;
}

/** Reads a stream as a member of its consumer group. */
export interface RedisStream {
  /** Creates the group if it is missing, and starts to read entries. Rejects if the group cannot be created. */
  start(): Promise<void>;
  /** Stops reading, and waits up to `drainMs` (30,000) for started entries. Unfinished entries stay pending. */
  close(options?: DrainOptions): Promise<Drained>;
}

const DEFAULTS = { concurrency: 16, claimIdleMs: 60_000, pollMs: 500 };

const CHECKS: Readonly<Record<string, Check>> = {
  client: toStreamConnection,
  reader: toStreamConnection,
  stream: isText,
  group: isText,
  name: isText,
  from: isText,
  concurrency: wholeFrom(1),
  claimIdleMs: wholeFrom(10),
  pollMs: wholeFrom(1),
  deadLetter: isText,
  onRejected: isFunction,
  onEvent: isFunction,
};

/** How long an entry that is to come back later keeps its slot, at most. Otherwise an outage of the store would read the whole stream into the pending list. */
const MAX_SLOT_MS = 1_000;

/** The key is a field that the producer set. An entry that the producer adds twice has the same key. */
export function fieldKey(field = "id"): (entry: StreamEntry) => string | undefined {
  return ({ fields }) => (Object.hasOwn(fields, field) ? fields[field] : undefined);
}

/** The key is the entry's id in the stream. An entry that the producer adds twice is processed twice. */
export function entryKey({ stream, id }: StreamEntry): Key {
  return compositeKey(stream, id);
}

/**
 * Creates a reader of a stream in its consumer group. It reads once `start` is called.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Redis } from "ioredis";
 * import { createGuard } from "nevertwice";
 * import { consumer } from "nevertwice/events";
 * import { entryKey, redisStream, type StreamEntry } from "nevertwice/events/redis-streams";
 * import { redisStore } from "nevertwice/stores/redis";
 *
 * const client = new Redis();
 * const guard = createGuard({ store: redisStore({ client }) });
 * const billing = consumer(guard, {
 *   name: "billing",
 *   key: entryKey,
 *   work: async (entry: StreamEntry) => console.log(entry.id),
 * });
 * const orders = redisStream(billing, { client, stream: "orders", group: "billing" });
 * await orders.start();
 * ```
 */
export function redisStream<T>(consumer: Consumer<StreamEntry, T>, options: RedisStreamOptions): RedisStream {
  checkStreamOptions(options);
  const { stream, group: groupName, name = newUuid(), onEvent } = options;
  const { concurrency, claimIdleMs, pollMs } = { ...DEFAULTS, ...givenOptions(options) };
  const group = createGroup(toStreamConnection("client", options.client), { stream, group: groupName, name });
  const reader = options.reader === undefined ? undefined : toStreamConnection("reader", options.reader);
  const stopping = new AbortController();
  const { signal } = stopping;
  const report = (event: StreamEvent) => void (onEvent && harmless(() => onEvent(event)));
  const handle = createEntryHandler({ consumer, group, options, claimIdleMs, report, signal });
  const slots = createEntrySlots(concurrency, handle);
  let from = options.from ?? "0";
  let reading: Promise<void> | undefined;

  async function makeGroup(): Promise<boolean> {
    const isMade = await group.create(from);
    if (isMade) report({ kind: "group-created", stream, group: groupName });
    return isMade;
  }

  async function start(): Promise<void> {
    if (signal.aborted)
      throw new NevertwiceError("options-invalid", "this stream was closed: create another one to start.");
    // If the group is lost, it is created again at this id, and not at the end that the stream has by then.
    if (from === "$") from = await group.end();
    await makeGroup();
    reading ??= readEntries({ stream, group, slots, reader, pollMs, claimIdleMs, makeGroup, report, signal });
  }

  async function drain(): Promise<void> {
    await reading;
    await slots.idle();
    await group.leave();
  }

  async function close(drainOptions?: DrainOptions): Promise<Drained> {
    stopping.abort();
    // If Redis is unreachable, only this consumer's name stays behind in the group.
    const ended = drain().catch(() => {});
    await waitForDrain(ended, drainOptions);
    return { unfinished: slots.taken() };
  }

  return { start, close };
}

interface EntryHandling<T> {
  readonly consumer: Consumer<StreamEntry, T>;
  readonly group: Group;
  readonly options: Pick<RedisStreamOptions, "deadLetter" | "onRejected">;
  readonly claimIdleMs: number;
  readonly report: (event: StreamEvent) => void;
  readonly signal: AbortSignal;
}

/** The consumer handles the entry, and the verdict is applied in Redis. */
function createEntryHandler<T>({ consumer, group, options, claimIdleMs, report, signal }: EntryHandling<T>) {
  async function settle(entry: StreamEntry, delivery: Delivery, release: () => void): Promise<void> {
    switch (delivery.verdict) {
      case "acknowledge":
        return group.acknowledge(entry.id);
      case "later":
        // After `afterMs` the entry is idle, and this or another consumer claims it.
        release();
        await group.hold(entry.id, Math.max(0, claimIdleMs - delivery.afterMs));
        return pause(systemTimer, Math.min(delivery.afterMs, MAX_SLOT_MS), signal);
      case "reject":
        return reject(entry, delivery);
    }
  }

  async function reject(entry: StreamEntry, delivery: Rejection): Promise<void> {
    const { deadLetter, onRejected } = options;
    if (deadLetter === undefined) {
      await onRejected?.(entry, delivery);
      await group.acknowledge(entry.id);
    } else await group.bury(entry, deadLetter, rejectionFields(entry, delivery));
    report({ kind: "rejected", stream: entry.stream, id: entry.id, error: delivery.error });
  }

  return async (entry: StreamEntry, release: () => void): Promise<void> => {
    const { stream, id } = entry;
    try {
      const delivery = await consumer.handle(entry, { onRenewed: () => group.hold(id, 0) });
      await settle(entry, delivery, release);
    } catch (error) {
      report({ kind: "left-pending", stream, id, error });
    }
  };
}

function checkStreamOptions(options: RedisStreamOptions): void {
  checkOptions(options, CHECKS);
  for (const name of ["client", "stream", "group"] as const) {
    if (options[name] !== undefined) continue;
    throw new NevertwiceError(
      "options-invalid",
      `${name} is missing: redisStream(consumer, { client, stream, group }).`,
    );
  }
  const { client, reader, deadLetter, onRejected, stream } = options;
  if ((deadLetter === undefined) === (onRejected === undefined))
    throw new NevertwiceError(
      "options-invalid",
      "deadLetter and onRejected: give exactly one, the name of a stream for rejected entries or a function that stores them.",
    );
  if (deadLetter === stream)
    throw new NevertwiceError(
      "options-invalid",
      "deadLetter must not be the stream that is read: give another stream.",
    );
  if (reader === client)
    throw new NevertwiceError(
      "options-invalid",
      "reader must be a separate connection (client.duplicate()): while it waits in Redis, it can send no other command.",
    );
}

const MAX_MESSAGE = 500;

function rejectionFields({ stream, id }: StreamEntry, { status, error }: Rejection): Record<string, string> {
  const message = error instanceof Error ? error.message : String(error);
  return {
    "nevertwice-stream": stream,
    "nevertwice-entry": id,
    "nevertwice-status": status,
    "nevertwice-error": message.slice(0, MAX_MESSAGE),
  };
}
