/** A consumer group of one stream, as one consumer of the group uses it: one method for each command. */
import type { StreamConnection } from "./client.ts";

/** An entry of a stream. */
export interface StreamEntry {
  /** The stream of the entry. */
  readonly stream: string;
  /** The id that Redis assigned: a time and a number. */
  readonly id: string;
  /** The last value of a field that occurs twice. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface GroupOptions {
  readonly stream: string;
  readonly group: string;
  /** This consumer's name in the group. */
  readonly name: string;
}

export interface Group {
  /** Creates the group, and the stream if there is none. Returns false if the group existed. */
  create(from: string): Promise<boolean>;
  /** The id of the last entry. In an empty stream, the id before the first entry. */
  end(): Promise<string>;
  /** Up to `count` entries that no consumer of the group has received yet. A `reader` waits for them in Redis. */
  read(reader: StreamConnection | undefined, count: number, waitMs: number): Promise<StreamEntry[]>;
  /** Takes over up to `count` pending entries that have been idle for `idleMs`. */
  claim(count: number, idleMs: number): Promise<StreamEntry[]>;
  acknowledge(id: string): Promise<void>;
  /** Sets the idle time of an entry and assigns it to this consumer. Changes nothing once the entry is acknowledged. */
  hold(id: string, idleMs: number): Promise<void>;
  /** Copies the entry and `why` to another stream and acknowledges it. Both happen once, or neither does. */
  bury(entry: StreamEntry, deadLetter: string, why: Readonly<Record<string, string>>): Promise<void>;
  /** Removes this consumer from the group, unless it has pending entries. */
  leave(): Promise<void>;
}

/**
 * Adds the entry's fields, byte by byte, and `why` to the dead-letter stream, then acknowledges the entry. Changes nothing if
 * the entry is no longer pending. An entry that was trimmed from the stream meanwhile is added as it was read.
 */
const BURY = `
local group, id, whys = ARGV[1], ARGV[2], tonumber(ARGV[3])
if #redis.call('XPENDING', KEYS[1], group, id, id, 1) == 0 then return 0 end
local found = redis.call('XRANGE', KEYS[1], id, id)
local fields = {}
if found[1] then fields = found[1][2]
else for i = 4 + whys, #ARGV do fields[#fields + 1] = ARGV[i] end end
for i = 4, 3 + whys do fields[#fields + 1] = ARGV[i] end
redis.call('XADD', KEYS[2], '*', unpack(fields))
return redis.call('XACK', KEYS[1], group, id)`;

/** Removing a consumer also removes its pending entries, so this does it only if there are none. */
const LEAVE = `
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])`;

const FIRST = "0-0";
/** XAUTOCLAIM scans at most ten times COUNT pending entries in one call, and may return none although more follow. */
const MAX_SCANS = 100;

export function createGroup(link: StreamConnection, { stream, group, name }: GroupOptions): Group {
  const key = link.keyFor(stream);
  let cursor = FIRST;
  const send = (...command: [string, ...string[]]) => link.send(stream, ...command);
  const readEntries = (list: unknown) => toEntries(stream, list);
  return {
    async create(from) {
      try {
        await send("XGROUP", "CREATE", key, group, from, "MKSTREAM");
        return true;
      } catch (error) {
        if (errorCode(error) === "BUSYGROUP") return false;
        throw error;
      }
    },
    async end() {
      const [last] = readEntries(await send("XREVRANGE", key, "+", "-", "COUNT", "1"));
      return last?.id ?? FIRST;
    },
    async read(reader, count, waitMs) {
      const block = reader === undefined ? [] : ["BLOCK", String(waitMs)];
      const args = ["GROUP", group, name, "COUNT", String(count), ...block, "STREAMS", key, ">"];
      return readEntries(entriesReply(await (reader ?? link).send(stream, "XREADGROUP", ...args)));
    },
    async claim(count, idleMs) {
      for (let scans = 0; scans < MAX_SCANS; scans++) {
        const from = [key, group, name, String(idleMs), cursor, "COUNT", String(count)];
        const [next, list] = (await send("XAUTOCLAIM", ...from)) as [unknown, unknown];
        cursor = String(next);
        const entries = readEntries(list);
        if (entries.length > 0 || cursor === FIRST) return entries;
      }
      return [];
    },
    async acknowledge(id) {
      await send("XACK", key, group, id);
    },
    async hold(id, idleMs) {
      await send("XCLAIM", key, group, name, "0", id, "IDLE", String(idleMs), "JUSTID");
    },
    async bury({ id, fields }, deadLetter, why) {
      const reasons = Object.entries(why).flat();
      const keys = ["2", key, link.keyFor(deadLetter)];
      const args = [group, id, String(reasons.length), ...reasons, ...Object.entries(fields).flat()];
      await send("EVAL", BURY, ...keys, ...args);
    },
    async leave() {
      await send("EVAL", LEAVE, "1", key, group, name);
    },
  };
}

/** The error code: the first word of the message of a Redis error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error ? error.message.split(" ", 1)[0] : undefined;
}

/** RESP2 returns a list with a pair of stream and entries. RESP3 returns a map, which some clients convert to an object. */
function entriesReply(reply: unknown): unknown {
  if (reply === null || reply === undefined) return [];
  if (reply instanceof Map) return [...reply.values()][0];
  if (!Array.isArray(reply)) return Object.values(reply)[0];
  return Array.isArray(reply[0]) ? reply[0][1] : reply[1];
}

/** Redis 6 returns null for an entry that is pending but was deleted from the stream. Such an entry is skipped. */
function toEntries(stream: string, list: unknown): StreamEntry[] {
  return ((list ?? []) as ([unknown, readonly unknown[] | null] | null)[]).flatMap((item) => {
    const [id, flat] = item ?? [];
    if (id === undefined || flat === undefined || flat === null) return [];
    const pairs: [string, string][] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([String(flat[i]), String(flat[i + 1])]);
    return [{ stream, id: String(id), fields: Object.fromEntries(pairs) }];
  });
}
