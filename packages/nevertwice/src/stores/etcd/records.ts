/**
 * Records as keys and values. The value of a record is one line of JSON, and after it the outcome, or the finished steps, as
 * they are: inside of the JSON, escaping could make them larger than etcd accepts. A second, empty key for each record that
 * can expire has the time in its name, so that expired records are found without reading the others.
 *
 *   nevertwice/record/<id>             {"state":"completed","token":…}\n<outcome>
 *   nevertwice/until/<keptUntil>/<id>
 */
import { checkedRecord } from "../../core/checked-record.ts";
import { damagedRecord } from "../../core/damaged-record.ts";
import type { Kept } from "../../core/record.ts";
import type { KeyValue } from "./transactions.ts";

/** A record as etcd has it. */
export interface StoredRecord {
  readonly record: Kept;
  /** The revision of its last write. */
  readonly revision: string;
  /** The revision of the write that created its key. */
  readonly created: string;
  /** How many leases were written, by claims and renewals, since the key was created. */
  readonly leases: number;
}

/** Names the lease of a record: no other lease of its id has the same name, not even after the record was removed. */
export function leaseName({ created, leases }: StoredRecord): string {
  return `${created}.${leases}`;
}

export interface Keyspace {
  record(id: string): string;
  /** The id in the key of a record. */
  idIn(key: string): string;
  /** The range of the records with ids after this one, or of all of them. */
  recordsAfter(id: string | undefined): { readonly from: string; readonly to: string };
  /** The key with the end of the retention; undefined for a record that does not expire until it is decided. */
  until(record: Kept): string | undefined;
  /** The range of the `until` keys of records that are past their retention, from the given key on. */
  untilNow(now: number, from: string | undefined): { readonly from: string; readonly to: string };
  /** The id in an `until` key. */
  idInUntil(key: string): string;
}

/** As many digits as the largest safe integer has, so that keys are in the order of time. */
const TIME_DIGITS = 16;

export function createKeyspace(prefix: string): Keyspace {
  const records = `${prefix}/record/`;
  const untils = `${prefix}/until/`;
  const time = (ms: number) => String(Math.ceil(ms)).padStart(TIME_DIGITS, "0");
  return {
    record: (id) => records + id,
    idIn: (key) => key.slice(records.length),
    recordsAfter: (id) => ({
      from: id === undefined ? records : `${records}${id}\0`,
      to: `${prefix}/record0`,
    }),
    until(record) {
      if (record.state === "pending" && record.hold) return undefined;
      return `${untils}${time(record.keptUntil)}/${record.id}`;
    },
    untilNow: (now, from = untils) => ({ from, to: `${untils}${time(now + 1)}` }),
    idInUntil: (key) => key.slice(untils.length + TIME_DIGITS + 1),
  };
}

/** The members of a record that are left out of the JSON while they have this value. */
const DEFAULTS: Readonly<Record<string, unknown>> = { spent: false, hold: false, tookOver: false };

export function toValue(record: Kept, leases: number): string {
  const { id: _id, outcome, steps, ...members } = record;
  const kept = Object.entries(members).filter(
    ([name, value]) => value !== undefined && value !== DEFAULTS[name],
  );
  const hasSteps = steps !== undefined && { steps: true };
  return `${JSON.stringify({ ...Object.fromEntries(kept), leases, ...hasSteps })}\n${outcome ?? steps ?? ""}`;
}

/** Throws `store-unsafe` for a value that the store did not write. */
export function fromKeyValue(id: string, { value, revision, created }: KeyValue): StoredRecord {
  const lineEnd = value?.indexOf("\n") ?? -1;
  if (value === undefined || lineEnd === -1) throw damagedRecord(id, "value");
  const members = parse(id, value.slice(0, lineEnd));
  const rest = value.slice(lineEnd + 1);
  const { leases, steps, ...raw } = members;
  if (!Number.isSafeInteger(leases) || (leases as number) < 1) throw damagedRecord(id, "leases");
  if (steps !== undefined && steps !== true) throw damagedRecord(id, "steps");
  const isCompleted = raw.state === "completed";
  if (!isCompleted && steps === undefined && rest !== "") throw damagedRecord(id, "outcome");
  const record = checkedRecord({
    ...DEFAULTS,
    ...raw,
    id,
    parts: readParts(id, raw.parts),
    outcome: isCompleted ? rest : undefined,
    steps: steps === true ? rest : undefined,
  } as Parameters<typeof checkedRecord>[0]);
  return { record, revision, created, leases: leases as number };
}

function parse(id: string, line: string): Record<string, unknown> {
  try {
    const members: unknown = JSON.parse(line);
    if (typeof members === "object" && members !== null && !Array.isArray(members))
      return members as Record<string, unknown>;
  } catch {
    // It is not JSON.
  }
  throw damagedRecord(id, "value");
}

const PARTS = ["namespace", "scope", "operation", "key"] as const;

/** All four parts, or undefined if they were forgotten. */
function readParts(id: string, value: unknown): Kept["parts"] {
  if (value === undefined) return undefined;
  const { namespace, scope, operation, key } = (value ?? {}) as NonNullable<Kept["parts"]>;
  const parts = { namespace, scope, operation, key };
  if (PARTS.some((name) => typeof parts[name] !== "string")) throw damagedRecord(id, "parts");
  return parts;
}
