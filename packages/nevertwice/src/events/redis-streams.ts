/**
 * Redis Streams: entries of one stream, read in one group, each done once. What a consumer died over is claimed by
 * another. Entries that are not acknowledged stay pending in Redis: nothing is only in memory.
 */
import { randomUUID } from "node:crypto";
import { pause } from "../core/backoff.ts";
import { systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { compositeKey, type Key } from "../core/key.ts";
import { harmless } from "../core/observer.ts";
import { type Check, checkOptions, isFunction, isText, wholeFrom } from "../core/policy.ts";
import type { Consumer } from "./consumer.ts";
import type { Rejection } from "./delivery.ts";
import type { StreamEvent } from "./redis-streams/event.ts";
import { type Group, groupOf, type StreamEntry } from "./redis-streams/group.ts";
import { type StreamClient, streamLinkTo } from "./redis-streams/link.ts";
import { placesFor } from "./redis-streams/places.ts";
import { readEntries } from "./redis-streams/reading.ts";
import { type Drained, type DrainOptions, drained } from "./under-way.ts";

export type { StreamEvent } from "./redis-streams/event.ts";
export type { StreamEntry } from "./redis-streams/group.ts";
export type { StreamClient } from "./redis-streams/link.ts";

export interface RedisStreamOptions {
  /** Of ioredis or node-redis. */
  readonly client: StreamClient;
  /** A second connection, for waiting in Redis alone. Without it, the stream is looked at every `pollMs`. */
  readonly reader?: StreamClient | undefined;
  readonly stream: string;
  readonly group: string;
  /** This process's name in the group: no two that live may share one. Default: a random one. */
  readonly name?: string | undefined;
  /** Where a group that is not there begins: an entry's id, "0" (default) for all, "$" for those to come. */
  readonly from?: string | undefined;
  /** How many entries are worked on at once; default 16. */
  readonly concurrency?: number | undefined;
  /** An entry of which nothing was heard for so long is another's to do; default 60,000. More than a third of the lease. */
  readonly claimIdleMs?: number | undefined;
  /** How long one look for new entries waits; default 500. */
  readonly pollMs?: number | undefined;
  /** The stream to which rejected entries go. Give this or `onRejected`. */
  readonly deadLetter?: string | undefined;
  /** Puts a rejected entry where people look. The entry is acknowledged once this resolves. */
  readonly onRejected?: ((entry: StreamEntry, delivery: Rejection) => unknown) | undefined;
  /** Told what becomes of the reading. What it throws is dropped. */
  readonly onEvent?: ((event: StreamEvent) => unknown) | undefined;
}

export interface RedisStream {
  /** Resolves once the group is there, and rejects if it cannot be made; entries are read from then on. */
  start(): Promise<void>;
  /** Reads no more and waits up to `drainMs` (30,000) for what is being worked on. What is unfinished stays pending. */
  close(options?: DrainOptions): Promise<Drained>;
}

const DEFAULTS = { concurrency: 16, claimIdleMs: 60_000, pollMs: 500 };

const CHECKS: Readonly<Record<string, Check>> = {
  client: streamLinkTo,
  reader: streamLinkTo,
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

/** How long, at most, the place of an entry that is to come back later is kept free: an outage of the store must not empty the stream. */
const REST_MS = 1_000;

/** The key of an entry is one of its fields: what the producer called it, the same if it was added twice. */
export function fieldKey(field = "id"): (entry: StreamEntry) => string | undefined {
  return ({ fields }) => (Object.hasOwn(fields, field) ? fields[field] : undefined);
}

/** The key of an entry is its place in the stream: an entry that was added twice is done twice. */
export function entryKey({ stream, id }: StreamEntry): Key {
  return compositeKey(stream, id);
}

/** Fails with `options-invalid` at once on bad options. */
export function redisStream<T>(consumer: Consumer<StreamEntry, T>, options: RedisStreamOptions): RedisStream {
  checkTogether(options);
  const { stream, group: groupName, name = randomUUID(), onEvent } = options;
  const { concurrency, claimIdleMs, pollMs } = { ...DEFAULTS, ...given(options) };
  const group = groupOf(streamLinkTo("client", options.client), { stream, group: groupName, name });
  const reader = options.reader === undefined ? undefined : streamLinkTo("reader", options.reader);
  const stopping = new AbortController();
  const { signal } = stopping;
  const tell = (event: StreamEvent) => void (onEvent && harmless(() => onEvent(event)));
  const serve = serving({ consumer, group, options, claimIdleMs, tell, signal });
  const places = placesFor(concurrency, serve);
  let from = options.from ?? "0";
  let reading: Promise<void> | undefined;

  async function makeGroup(): Promise<boolean> {
    const isMade = await group.create(from);
    if (isMade) tell({ kind: "group-created", stream, group: groupName });
    return isMade;
  }

  async function start(): Promise<void> {
    if (signal.aborted)
      throw new NevertwiceError("options-invalid", "this stream was closed: make another to start.");
    // A group that is lost is made again where this one began, and not where the stream ends by then.
    if (from === "$") from = await group.end();
    await makeGroup();
    reading ??= readEntries({ stream, group, places, reader, pollMs, claimIdleMs, makeGroup, tell, signal });
  }

  async function drain(): Promise<void> {
    await reading;
    await places.idle();
    await group.leave();
  }

  async function close(drainOptions?: DrainOptions): Promise<Drained> {
    stopping.abort();
    // Redis may be gone for good by now; then our name stays in the group, and nothing else.
    const ended = drain().catch(() => {});
    await drained(ended, drainOptions);
    return { unfinished: places.taken() };
  }

  return { start, close };
}

interface Serving<T> {
  readonly consumer: Consumer<StreamEntry, T>;
  readonly group: Group;
  readonly options: Pick<RedisStreamOptions, "deadLetter" | "onRejected">;
  readonly claimIdleMs: number;
  readonly tell: (event: StreamEvent) => void;
  readonly signal: AbortSignal;
}

/** Has an entry handled, and tells Redis the verdict. */
function serving<T>({ consumer, group, options, claimIdleMs, tell, signal }: Serving<T>) {
  async function reject(entry: StreamEntry, delivery: Rejection): Promise<void> {
    const { deadLetter, onRejected } = options;
    if (deadLetter === undefined) {
      await onRejected?.(entry, delivery);
      await group.acknowledge(entry.id);
    } else await group.bury(entry, deadLetter, whyOf(entry, delivery));
    tell({ kind: "rejected", stream: entry.stream, id: entry.id, error: delivery.error });
  }

  return async (entry: StreamEntry, letGo: () => void): Promise<void> => {
    const { stream, id } = entry;
    try {
      const delivery = await consumer.handle(entry, { onRenewed: () => group.hold(id, 0) });
      if (delivery.verdict === "acknowledge") await group.acknowledge(id);
      else if (delivery.verdict === "reject") await reject(entry, delivery);
      else {
        // Whoever looks for idle entries after `afterMs` finds it: us, or another.
        letGo();
        await group.hold(id, Math.max(0, claimIdleMs - delivery.afterMs));
        await pause(systemTimer, Math.min(delivery.afterMs, REST_MS), signal);
      }
    } catch (error) {
      tell({ kind: "left-pending", stream, id, error });
    }
  };
}

function given(options: RedisStreamOptions): Partial<typeof DEFAULTS> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function checkTogether(options: RedisStreamOptions): void {
  checkOptions(options, CHECKS);
  for (const name of ["client", "stream", "group"] as const) {
    if (options[name] !== undefined) continue;
    throw new NevertwiceError("options-invalid", `${name} is missing.`);
  }
  const { client, reader, deadLetter, onRejected, stream } = options;
  if ((deadLetter === undefined) === (onRejected === undefined))
    throw new NevertwiceError(
      "options-invalid",
      "say where rejected entries go: give deadLetter, a stream's name, or onRejected, a function.",
    );
  if (deadLetter === stream)
    throw new NevertwiceError(
      "options-invalid",
      "deadLetter must be another stream than the one that is read.",
    );
  if (reader === client)
    throw new NevertwiceError(
      "options-invalid",
      "reader must be a connection of its own (client.duplicate()): while one waits in Redis, it does nothing else.",
    );
}

const MAX_MESSAGE = 500;

function whyOf({ stream, id }: StreamEntry, { status, error }: Rejection): Record<string, string> {
  const message = error instanceof Error ? error.message : String(error);
  return {
    "nevertwice-stream": stream,
    "nevertwice-entry": id,
    "nevertwice-status": status,
    "nevertwice-error": message.slice(0, MAX_MESSAGE),
  };
}
