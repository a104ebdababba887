/** All records of a store, for lists: found by SCAN, a bounded piece at a time. */
import { NevertwiceError } from "../../core/errors.ts";
import { partsStart } from "../../core/parts.ts";
import { isExpired, stateOf, viewOf } from "../../core/record.ts";
import type { ListPage, ListRequest, StoreRecord } from "../../core/store.ts";
import { READ, type Script } from "../redis-lua.ts";
import type { RedisLink, RedisNode } from "./link.ts";
import { keptFrom, type StoredFields } from "./stored.ts";

export interface Ground {
  readonly link: RedisLink;
  /** What the keys begin with as they are in Redis. */
  readonly kept: string;
  /** Runs a script on any number of records. */
  run(script: Script, ids: readonly string[], ...args: string[]): Promise<unknown>;
}

/** Where a walk over all servers stands: on which one, and how far SCAN has come there. */
interface Place {
  readonly node: string;
  readonly cursor: string;
}

const START = "0";

async function mastersOf({ link }: Ground): Promise<readonly RedisNode[]> {
  return (await link.masters()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** About `count` keys of Redis from this place on: the records among them, and the place after them, if there is one. */
async function scan(
  ground: Ground,
  { node, cursor }: Place,
  count: number,
): Promise<{ readonly ids: readonly string[]; readonly next: Place | undefined }> {
  const nodes = await mastersOf(ground);
  const at = nodes.findIndex(({ name }) => name === node);
  if (at < 0)
    throw new NevertwiceError(
      "unavailable",
      `${node} is no longer a master of the cluster: begin the list again.`,
    );
  const pattern = `${ground.kept.replace(/[\\*?[\]]/g, "\\$&")}{*}`;
  const reply = await nodes[at]?.send("SCAN", cursor, "MATCH", pattern, "COUNT", String(count));
  const [after, keys] = reply as [unknown, unknown[]];
  const ids = new Set(keys.map((key) => String(key).slice(ground.kept.length + 1, -1)));
  const following = nodes[at + 1]?.name;
  const next =
    String(after) !== START
      ? { node, cursor: String(after) }
      : following === undefined
        ? undefined
        : { node: following, cursor: START };
  return { ids: [...ids], next };
}

async function startOf(ground: Ground): Promise<Place | undefined> {
  const [first] = await mastersOf(ground);
  return first && { node: first.name, cursor: START };
}

/** Runs a script on records that may live on different servers. */
async function runOnEach(
  { link, run }: Ground,
  script: Script,
  ids: readonly string[],
  ...args: string[]
): Promise<readonly unknown[]> {
  if (ids.length === 0) return [];
  const groups = link.isCluster ? ids.map((id) => [id]) : [ids];
  return Promise.all(groups.map((group) => run(script, group, ...args)));
}

/** How many keys of Redis one page looks through, about, and how many at once. */
const PAGE_LOOK = 10_000;
const MOST_AT_ONCE = 1_000;
const LEAST_AT_ONCE = 10;

/**
 * One page. SCAN gives what it gives: a page that is full before the piece is through hands the rest on by id, so that
 * nothing is missed. A page may have fewer records than asked for, or none, and still not be the last.
 */
export async function listRecords(ground: Ground, request: ListRequest): Promise<ListPage> {
  const { limit, after } = request;
  const begun = after === undefined ? { ids: [], place: await startOf(ground) } : pageFrom(after);
  let place = begun.place;
  let rest = begun.ids.slice(limit);
  const records = new Map<string, StoreRecord>();
  for (const record of await matching(ground, request, begun.ids.slice(0, limit)))
    records.set(record.id, record);

  let count = Math.max(LEAST_AT_ONCE, limit);
  let looked = 0;
  while (place !== undefined && rest.length === 0 && records.size < limit && looked < PAGE_LOOK) {
    looked += count;
    const room = limit - records.size;
    const { ids, next } = await scan(ground, place, count);
    const found = await matching(
      ground,
      request,
      ids.filter((id) => !records.has(id)),
    );
    const finer = Math.max(LEAST_AT_ONCE, room);
    if (found.length > room && count > finer) {
      // Too much at once to hand on: the same piece again, smaller.
      count = finer;
      continue;
    }
    for (const record of found.slice(0, room)) records.set(record.id, record);
    rest = found.slice(room).map(({ id }) => id);
    place = next;
    if (found.length < room / 2) count = Math.min(MOST_AT_ONCE, count * 2);
  }
  const page = [...records.values()];
  return place === undefined && rest.length === 0
    ? { records: page }
    : { records: page, next: textOf({ ids: rest, place }) };
}

async function matching(
  ground: Ground,
  { namespace, scope, state }: ListRequest,
  ids: readonly string[],
): Promise<readonly StoreRecord[]> {
  const answers = await runOnEach(ground, READ, ids, partsStart(namespace, scope));
  const replies = answers as readonly (readonly [unknown, ...(StoredFields | null)[]])[];
  return replies.flatMap(([time, ...found], group) =>
    found.flatMap((fields, index) => {
      // Either one group with many records, or many groups with one each.
      const id = ids[group + index];
      if (fields === null || id === undefined) return [];
      const now = Number(time);
      const record = keptFrom(id, fields);
      if (isExpired(record, now) || (state !== undefined && stateOf(record, now) !== state)) return [];
      return [viewOf(record, now)];
    }),
  );
}

interface PageStart {
  /** Found by the page before, and not shown there. */
  readonly ids: readonly string[];
  readonly place: Place | undefined;
}

function textOf({ ids, place }: PageStart): string {
  return Buffer.from(JSON.stringify([place?.node ?? null, place?.cursor ?? "", ...ids])).toString(
    "base64url",
  );
}

function pageFrom(after: string): PageStart {
  const [node, cursor, ...ids] = parsed(Buffer.from(after, "base64url").toString());
  if (node === undefined || cursor === undefined)
    throw new NevertwiceError("options-invalid", "after is not what a page gave as its next.");
  return { ids, place: node === null ? undefined : { node, cursor } };
}

function parsed(text: string): [node: string | null, cursor: string, ...ids: string[]] | [] {
  try {
    return JSON.parse(text);
  } catch {
    return [];
  }
}
