/** A record as the scripts keep it, read back into the words of `core/record.ts`. */
import { NevertwiceError } from "../../core/errors.ts";
import type { Kept } from "../../core/record.ts";
import type { Parts } from "../../core/store.ts";
import { RECORD_VERSION } from "../redis-lua.ts";

/** What the READ script returns of one key: record, parts, fingerprint, outcome. */
export type StoredFields = readonly [string, string | null, string | null, string | null];

const RECORD =
  /^(\d+) (pending|lapsed|completed|released) (\d+) (\d+) (\d) (\d) (\d+) (\d+) (\d+) (\d+) (\d+) (.*)$/s;

export function keptFrom(id: string, [text, parts, fingerprint, outcome]: StoredFields): Kept {
  const found = RECORD.exec(text);
  if (found === null || found[1] !== RECORD_VERSION) throw unreadable(text.split(" ", 1)[0] ?? "");
  const number = (at: number): number => Number(found[at]);
  const state = found[2] as "pending" | "lapsed" | "completed" | "released";
  const leaseEndsAt = number(9);
  const retentionMs = number(10);
  const completedAt = state === "completed" ? number(11) : undefined;
  return {
    id,
    parts: partsFrom(parts),
    fingerprint: fingerprint ?? undefined,
    state: state === "lapsed" ? "pending" : state,
    token: found[12] as string,
    spent: state === "lapsed" || state === "released",
    fence: number(3),
    number: number(4),
    hold: found[5] === "1",
    tookOver: found[6] === "1",
    claimedAt: number(7),
    leaseMs: number(8),
    leaseEndsAt,
    retentionMs,
    keptUntil: (completedAt ?? leaseEndsAt) + retentionMs,
    completedAt,
    outcome: outcome ?? undefined,
  };
}

export function unreadable(version: string): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `a record has version ${JSON.stringify(version)}, and this nevertwice reads ${RECORD_VERSION}: it was written by a newer nevertwice, or by something else. Update every process that shares this Redis, or give them different prefixes.`,
  );
}

/** As an array: its beginning says whose record it is, so that a list can tell without reading all of it. */
export function partsText({ namespace, scope, operation, key }: Parts): string {
  return JSON.stringify([namespace, scope, operation, key]);
}

/** How the parts of every record of a namespace, or of one scope in it, begin. */
export function partsStart(namespace: string, scope: string | undefined): string {
  const start = JSON.stringify(scope === undefined ? [namespace] : [namespace, scope]);
  return `${start.slice(0, -1)},`;
}

function partsFrom(text: string | null): Parts | undefined {
  if (text === null) return undefined;
  const [namespace, scope, operation, key] = JSON.parse(text) as [string, string, string, string];
  return { namespace, scope, operation, key };
}
