/** One group's part of one stream, as one consumer of the group sees it: a method for each command. */
import type { StreamLink } from "./link.ts";

export interface StreamEntry {
  readonly stream: string;
  /** What Redis called it: a time and a number. */
  readonly id: string;
  /** If a field is there twice, its last value. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface GroupOptions {
  readonly stream: string;
  readonly group: string;
  /** This consumer's name in the group. */
  readonly name: string;
}

export interface Group {
  /** Makes the group, and the stream if there is none. False if the group was there. */
  create(from: string): Promise<boolean>;
  /** The id of the last entry, or that before the first. */
  end(): Promise<string>;
  /** Up to `count` entries that nobody in the group was given yet. A `reader` waits for them in Redis. */
  read(reader: StreamLink | undefined, count: number, waitMs: number): Promise<StreamEntry[]>;
  /** Up to `count` entries that were given to somebody and not heard of for `idleMs`. They are ours from then on. */
  claim(count: number, idleMs: number): Promise<StreamEntry[]>;
  acknowledge(id: string): Promise<void>;
  /** It is ours, and was last heard of `idleMs` ago. Changes nothing once it is acknowledged. */
  hold(id: string, idleMs: number): Promise<void>;
  /** Copies it to another stream with `why`, and acknowledges it: both or neither, and once. */
  bury(entry: StreamEntry, deadLetter: string, why: Readonly<Record<string, string>>): Promise<void>;
  /** Removes our name from the group, unless entries are in it. */
  leave(): Promise<void>;
}

/**
 * Adds the entry's own fields, byte by byte, and `why` to the dead-letter stream, then acknowledges it. Changes nothing if
 * it is not pending any more. What was trimmed from the stream meanwhile is added as it was read.
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

/** To remove a consumer is to remove what is pending in its name: so only if nothing is. */
const LEAVE = `
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return 0 end
return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])`;

const FIRST = "0-0";
/** Redis looks at ten times as many pending entries as are asked for, and then answers, though it found none. */
const MAX_LOOKS = 100;

export function groupOf(link: StreamLink, { stream, group, name }: GroupOptions): Group {
  const key = link.nameOf(stream);
  let cursor = FIRST;
  const send = (...command: [string, ...string[]]) => link.send(stream, ...command);
  const entriesOf = (list: unknown) => entriesFrom(stream, list);
  return {
    async create(from) {
      try {
        await send("XGROUP", "CREATE", key, group, from, "MKSTREAM");
        return true;
      } catch (error) {
        if (codeOf(error) === "BUSYGROUP") return false;
        throw error;
      }
    },
    async end() {
      const [last] = entriesOf(await send("XREVRANGE", key, "+", "-", "COUNT", "1"));
      return last?.id ?? FIRST;
    },
    async read(reader, count, waitMs) {
      const block = reader === undefined ? [] : ["BLOCK", String(waitMs)];
      const asked = ["GROUP", group, name, "COUNT", String(count), ...block, "STREAMS", key, ">"];
      return entriesOf(ofOneStream(await (reader ?? link).send(stream, "XREADGROUP", ...asked)));
    },
    async claim(count, idleMs) {
      for (let looks = 0; looks < MAX_LOOKS; looks++) {
        const from = [key, group, name, String(idleMs), cursor, "COUNT", String(count)];
        const [next, list] = (await send("XAUTOCLAIM", ...from)) as [unknown, unknown];
        cursor = String(next);
        const entries = entriesOf(list);
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
      const keys = ["2", key, link.nameOf(deadLetter)];
      const args = [group, id, String(reasons.length), ...reasons, ...Object.entries(fields).flat()];
      await send("EVAL", BURY, ...keys, ...args);
    },
    async leave() {
      await send("EVAL", LEAVE, "1", key, group, name);
    },
  };
}

/** The first word of what Redis refused with. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? error.message.split(" ", 1)[0] : undefined;
}

/** A stream and its entries come as a pair in a list; in the newer protocol as a map, or as what a client makes of one. */
function ofOneStream(reply: unknown): unknown {
  if (reply === null || reply === undefined) return [];
  if (reply instanceof Map) return [...reply.values()][0];
  if (!Array.isArray(reply)) return Object.values(reply)[0];
  return Array.isArray(reply[0]) ? reply[0][1] : reply[1];
}

/** Redis 6 has null for an entry that is pending and was deleted: there is nothing left to do. */
function entriesFrom(stream: string, list: unknown): StreamEntry[] {
  return ((list ?? []) as ([unknown, readonly unknown[] | null] | null)[]).flatMap((item) => {
    const [id, flat] = item ?? [];
    if (id === undefined || flat === undefined || flat === null) return [];
    const pairs: [string, string][] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) pairs.push([String(flat[i]), String(flat[i + 1])]);
    return [{ stream, id: String(id), fields: Object.fromEntries(pairs) }];
  });
}
