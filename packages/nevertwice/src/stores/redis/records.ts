/** Reads records that the scripts wrote, and lists all records of a store: found by SCAN, a limited number at a time. */
import { fromBase64, toBase64 } from "../../core/bytes.ts";
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { partsFrom, partsStart } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { ListPage, ListRequest, Parts, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import type { TurnsOfCall } from "../in-turn.ts";
import { isListed } from "../listing.ts";
import { RECORD_VERSION, UNREADABLE } from "../redis-lua.ts";
import type { RedisAdapter, RedisNode } from "./client.ts";
import { parseText, unescapeLine } from "./record-text.ts";

/** `stored` is what the READ script returns for one key. */
export function parseRecord(id: string, stored: unknown): Kept {
  checkReadable(id, stored);
  const text = String(stored);
  const record = parseText(text);
  if (record === undefined) throw unreadableError(id, "", /^\d*/.exec(text)?.[0]);
  const { state, endsAt, parts, fingerprint, rest, token: line, history, ...words } = record;
  const isCompleted = state === "completed";
  const token = unescapeLine(line);
  return {
    id,
    ...words,
    parts: parts === "" ? undefined : parseParts(id, parts),
    fingerprint: fingerprint === "" ? undefined : unescapeLine(fingerprint),
    state: state === "lapsed" ? "pending" : state,
    token,
    spent: state === "lapsed" || state === "released",
    leaseEndsAt: endsAt,
    keptUntil: endsAt + words.retentionMs,
    completedAt: isCompleted ? endsAt : undefined,
    outcome: isCompleted ? rest : undefined,
    steps: isCompleted ? undefined : stepsText(token, rest),
    history: history === undefined ? undefined : `${token}\n${history}`,
  };
}

/** The text of steps as `core/kept-steps.ts` reads it, from the lines that a record keeps; undefined if there are none. */
export function stepsText(token: string, lines: string): string | undefined {
  return lines === "" ? undefined : `${token}\n${lines}`;
}

function parseParts(id: string, text: string): Parts {
  try {
    const parts = partsFrom(text);
    if (Object.values(parts).every((part) => typeof part === "string")) return parts;
  } catch {
    // Not JSON, or not a list.
  }
  throw unreadableError(id, `its parts are ${JSON.stringify(text.slice(0, 40))}`);
}

/** Throws `store-unsafe` if a script answered that it cannot read this record. */
export function checkReadable(id: string, answer: unknown): void {
  if (!Array.isArray(answer) || answer[0] !== UNREADABLE) return;
  throw unreadableError(id, String(answer[1]), answer[2] === undefined ? undefined : String(answer[2]));
}

/** `why` is the reason, or empty: then the reason is the version, or that a record of this version is damaged. */
function unreadableError(id: string, why: string, version = ""): NevertwiceError {
  const reason =
    why !== ""
      ? why
      : version === RECORD_VERSION
        ? "its text is damaged"
        : `its version is ${JSON.stringify(version.slice(0, 20))}, and this nevertwice reads ${RECORD_VERSION}`;
  return new NevertwiceError(
    "store-unsafe",
    `the record {${id}} cannot be read: ${reason}. A newer nevertwice or another program wrote it. Update every process that shares this Redis, or give them different prefixes. If the record is damaged, remove it once you know whether its work was done.`,
  );
}

export interface RecordSource {
  readonly adapter: Pick<RedisAdapter, "isCluster" | "masters">;
  /** The prefix that keys have in Redis. */
  readonly prefix: string;
  /** Runs the READ script on any number of ids. Returns only records whose parts begin with `start`. */
  read(ids: readonly string[], start: string): Promise<unknown>;
}

/** How far a list has come: the server, and the cursor of SCAN there. */
interface ScanPosition {
  readonly node: string;
  readonly cursor: string;
}

const START = "0";

async function sortedMasters({ adapter }: RecordSource): Promise<readonly RedisNode[]> {
  return (await adapter.masters()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Scans about `count` keys from this position. Returns the ids of the records among them, and the next position. */
async function scan(
  source: RecordSource,
  { node, cursor }: ScanPosition,
  count: number,
): Promise<{ readonly ids: readonly string[]; readonly next: ScanPosition | undefined }> {
  const nodes = await sortedMasters(source);
  const at = nodes.findIndex(({ name }) => name === node);
  if (at < 0)
    throw new NevertwiceError(
      "unavailable",
      `${node} is no longer a master of the cluster: start the list again.`,
    );
  const pattern = `${source.prefix.replace(/[\\*?[\]]/g, "\\$&")}{*}`;
  const reply = await nodes[at]?.send("SCAN", cursor, "MATCH", pattern, "COUNT", String(count));
  const [after, keys] = reply as [unknown, unknown[]];
  const ids = new Set(keys.map((key) => String(key).slice(source.prefix.length + 1, -1)));
  const following = nodes[at + 1]?.name;
  const next =
    String(after) !== START
      ? { node, cursor: String(after) }
      : following === undefined
        ? undefined
        : { node: following, cursor: START };
  return { ids: [...ids], next };
}

async function firstPosition(source: RecordSource): Promise<ScanPosition | undefined> {
  const [first] = await sortedMasters(source);
  return first && { node: first.name, cursor: START };
}

/** Reads records that may be on different servers. */
async function readRecords(
  { adapter, read }: RecordSource,
  ids: readonly string[],
  start: string,
): Promise<readonly unknown[]> {
  if (ids.length === 0) return [];
  const groups = adapter.isCluster ? ids.map((id) => [id]) : [ids];
  return Promise.all(groups.map((group) => read(group, start)));
}

/** About how many keys one page scans in total. */
const MAX_SCANNED = 10_000;
const MIN_AT_ONCE = 10;

/** How a page is read. */
export interface PageReading {
  /** Each SCAN with its reads is a turn. */
  readonly turns: TurnsOfCall;
  /** About how many keys a turn scans at most: the server takes no claims meanwhile. */
  readonly keysAtOnce: number;
  /** A page whose turns take longer ends early: its caller waits for the answer. */
  readonly longestMs: number;
}

/**
 * One page of a list. SCAN decides how many keys it returns. If they do not fit on the page, the cursor carries the
 * remaining ids to the next page, so that none is missed. A page may have fewer records than its limit, or none, and still
 * not be the last.
 */
export async function listRecords(
  source: RecordSource,
  request: ListRequest,
  { turns, keysAtOnce, longestMs }: PageReading,
): Promise<ListPage> {
  const { limit, after } = request;
  const start = after === undefined ? { ids: [], position: await firstPosition(source) } : parseCursor(after);
  let position = start.position;
  let rest = start.ids.slice(limit);
  const records = new Map<string, StoreRecord>();
  const unreadable = new Map<string, UnreadableRecord>();
  const read = (ids: readonly string[]) => readMatching(source, request, ids, unreadable);
  for (const record of await turns.run(() => read(start.ids.slice(0, limit)))) records.set(record.id, record);

  let count = Math.max(MIN_AT_ONCE, limit);
  let scanned = 0;
  const until = turns.spentMs() + longestMs;
  const isOver = () => scanned >= MAX_SCANNED || (scanned > 0 && turns.spentMs() >= until);
  const scanFrom = (from: ScanPosition) =>
    turns.run(async () => {
      const { ids, next } = await scan(source, from, count);
      return { found: await read(ids.filter((id) => !records.has(id))), next };
    });
  while (position !== undefined && rest.length === 0 && records.size < limit && !isOver()) {
    scanned += count;
    const room = limit - records.size;
    const { found, next } = await scanFrom(position);
    const finer = Math.max(MIN_AT_ONCE, room);
    if (found.length > room && count > finer) {
      // Too many ids for the cursor: scan the same position again, with a smaller count.
      count = finer;
      continue;
    }
    for (const record of found.slice(0, room)) records.set(record.id, record);
    rest = found.slice(room).map(({ id }) => id);
    position = next;
    if (found.length < room / 2) count = Math.min(keysAtOnce, count * 2);
  }
  return {
    records: [...records.values()],
    ...(unreadable.size > 0 && { unreadable: [...unreadable.values()] }),
    ...((position !== undefined || rest.length > 0) && { next: toCursor({ ids: rest, position }) }),
  };
}

/** A record that cannot be read is added to `unreadable`; the others are still returned. */
async function readMatching(
  source: RecordSource,
  { limit: _, after: __, ...filter }: ListRequest,
  ids: readonly string[],
  unreadable: Map<string, UnreadableRecord>,
): Promise<readonly StoreRecord[]> {
  const answers = await readRecords(source, ids, partsStart(filter.namespace, filter.scope));
  const replies = answers as readonly (readonly [unknown, ...unknown[]])[];
  return replies.flatMap(([time, ...found], group) =>
    found.flatMap((stored, index) => {
      // There is either one group with many records, or many groups with one record each.
      const id = ids[group + index];
      if (stored === null || id === undefined) return [];
      const now = Number(time);
      try {
        const record = parseRecord(id, stored);
        return isListed(record, filter, now) ? [viewOf(record, now)] : [];
      } catch (error) {
        if (!isNevertwiceError(error, "store-unsafe")) throw error;
        unreadable.set(id, { id, reason: error.message });
        return [];
      }
    }),
  );
}

interface ListCursor {
  /** Ids that the previous page found and had no room for. */
  readonly ids: readonly string[];
  readonly position: ScanPosition | undefined;
}

function toCursor({ ids, position }: ListCursor): string {
  const text = JSON.stringify([position?.node ?? null, position?.cursor ?? "", ...ids]);
  return toBase64(new TextEncoder().encode(text))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

function parseCursor(after: string): ListCursor {
  const [node, cursor, ...ids] = parseJson(after);
  if (node === undefined || cursor === undefined)
    throw new NevertwiceError("options-invalid", "after must be the next of an earlier page.");
  return { ids, position: node === null ? undefined : { node, cursor } };
}

function parseJson(after: string): [node: string | null, cursor: string, ...ids: string[]] | [] {
  try {
    const bytes = fromBase64(after.replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return [];
  }
}
