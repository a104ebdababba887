/**
 * Records as items of a table: one readable attribute for each member of the record, named as in the contract. Lists of
 * records are found by scanning the table.
 */

import { checkedRecord, readEach } from "../../core/checked-record.ts";
import type { Clock } from "../../core/clock.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import type { Kept } from "../../core/record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { ListPage, ListRequest, Parts, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import { isListed } from "../listing.ts";
import { type DynamodbItem, names, values } from "./client.ts";

/** The attribute by which DynamoDB itself removes expired items ("TTL"), in seconds. */
export const PURGE_AT = "purgeAt";

export interface MarkedRecord {
  readonly record: Kept;
  readonly mark: string;
}

/** `lateMs` is how long after `keptUntil` DynamoDB may remove the item. */
export function toItem({ record, mark }: MarkedRecord, lateMs: number): DynamodbItem {
  const { parts, ...members } = record;
  const isHeld = record.state === "pending" && record.hold;
  const purgeAt = isHeld ? undefined : toPurgeAt(record.keptUntil, lateMs);
  const item = { ...members, ...parts, mark, [PURGE_AT]: purgeAt };
  // By default the SDK refuses values that are undefined.
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));
}

export function toPurgeAt(keptUntil: number, lateMs: number): number {
  return Math.ceil((keptUntil + lateMs) / 1_000);
}

/** Throws `store-unsafe` for an item that the store did not write. */
export function fromItem(item: DynamodbItem): MarkedRecord {
  const id = String(item.id);
  const record = checkedRecord({
    id,
    parts: readParts(id, item),
    fingerprint: item.fingerprint,
    state: item.state,
    token: item.token,
    spent: item.spent,
    fence: numberFrom(item.fence),
    number: numberFrom(item.number),
    hold: item.hold,
    tookOver: item.tookOver,
    claimedAt: numberFrom(item.claimedAt),
    leaseMs: numberFrom(item.leaseMs),
    leaseEndsAt: numberFrom(item.leaseEndsAt),
    retentionMs: numberFrom(item.retentionMs),
    keptUntil: numberFrom(item.keptUntil),
    completedAt: item.completedAt === undefined ? undefined : numberFrom(item.completedAt),
    outcome: textFrom(item.outcome),
    steps: item.steps,
    history: item.history,
  });
  if (typeof item.mark !== "string" || item.mark === "") throw damagedRecord(id, "mark");
  return { record, mark: item.mark };
}

const PARTS = ["namespace", "scope", "operation", "key"] as const;

/** All four parts, or undefined if all are missing because they were forgotten. */
function readParts(id: string, item: DynamodbItem): Kept["parts"] {
  if (PARTS.every((name) => item[name] === undefined)) return undefined;
  const parts = Object.fromEntries(PARTS.map((name) => [name, textFrom(item[name])]));
  const wrong = PARTS.find((name) => typeof parts[name] !== "string");
  if (wrong !== undefined) throw damagedRecord(id, wrong);
  return parts as unknown as Parts;
}

/** A client may be configured to write empty strings as null. */
function textFrom(value: unknown): unknown {
  return value === null ? "" : value;
}

/** A client may be configured to return numbers as wrapper objects or as bigints. */
function numberFrom(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  const { value: wrapped } = (value ?? {}) as { readonly value?: unknown };
  return typeof wrapped === "string" ? Number(wrapped) : value;
}

/** Converts an item that came with an error: the SDK converts only the items of successful replies. */
export function fromAttributes(attributes: Readonly<Record<string, unknown>>): DynamodbItem {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => {
      const { S, N, BOOL } = value as { S?: string; N?: string; BOOL?: boolean };
      return [name, S ?? (N === undefined ? (BOOL ?? null) : Number(N))];
    }),
  );
}

/** What `listRecords` needs of the store. */
export interface ListSource {
  scan(input: DynamodbItem, signal: AbortSignal | undefined): Promise<DynamodbItem>;
  readonly clock: Clock;
}

/** How many pages of a scan, of one mebibyte each, one page of a list may take. */
const MAX_SCANS = 20;

const readId = ({ id }: DynamodbItem) => String(id);

/** A page of records for people. */
export async function listRecords({ scan, clock }: ListSource, request: ListRequest): Promise<ListPage> {
  const { limit, after, signal, ...filter } = request;
  const { namespace, scope, operation, key } = filter;
  const matched = {
    namespace,
    ...(scope !== undefined && { scope }),
    ...(operation !== undefined && { operation }),
    ...(key !== undefined && { key }),
  };
  const records: StoreRecord[] = [];
  const unreadable: UnreadableRecord[] = [];
  const toPage = (next: string | undefined): ListPage => ({
    records,
    ...(unreadable.length > 0 && { unreadable }),
    ...(next !== undefined && { next }),
  });
  const attributes = Object.keys(matched);
  const input = {
    ConsistentRead: true,
    FilterExpression: attributes.map((name) => `#${name} = :${name}`).join(" AND "),
    ...names(...attributes),
    ...values(matched),
  };
  let start: DynamodbItem | undefined = after === undefined ? undefined : { id: after };
  for (let scans = 0; scans < MAX_SCANS; scans++) {
    // From before the reply: a record that was renewed while it was on its way must not look lapsed.
    const now = clock.now();
    const page: DynamodbItem = await scan({ ...input, ...(start && { ExclusiveStartKey: start }) }, signal);
    const items = page.Items as readonly DynamodbItem[];
    const read = readEach(items, readId, (item) => fromItem(item).record);
    unreadable.push(...read.unreadable);
    for (const record of read.values) {
      if (!isListed(record, filter, now)) continue;
      if (records.length === limit) return toPage(records.at(-1)?.id);
      records.push(viewOf(record, now));
    }
    start = page.LastEvaluatedKey as DynamodbItem | undefined;
    if (start === undefined) return toPage(undefined);
  }
  return toPage(start?.id as string);
}
