/** A record as the scripts keep it, read back into the words of `core/record.ts`. */
import { NevertwiceError } from "../../core/errors.ts";
import { partsFrom } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
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
    parts: parts === null ? undefined : partsFrom(parts),
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
