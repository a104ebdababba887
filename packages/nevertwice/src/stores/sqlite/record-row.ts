/** A record as the columns of its row, and back. */
import { fromHex, toHex } from "../../core/bytes.ts";
import { checkedParts, checkedRecord, flagFrom } from "../../core/checked-record.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { partsText } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
import type { SqliteRow, SqlValue } from "./client.ts";

/** A record and the row that contains it. */
export interface StoredRow {
  readonly rowid: number;
  readonly purgeAt: number | null;
  readonly kept: Kept;
}

const DIGEST = /^[0-9a-f]{64}$/;

/** A digest is stored as its 32 bytes. Any other id is stored as JSON, which escapes U+0000 and stays unique. */
export function toColumn(id: string): SqlValue {
  return DIGEST.test(id) ? fromHex(id) : JSON.stringify(id);
}

export function fromColumn(value: unknown): string {
  if (value instanceof Uint8Array) return toHex(value);
  try {
    return JSON.parse(value as string);
  } catch {
    // The store wrote no such id, and no key leads to it. Lists still show it to people.
    return String(value);
  }
}

export function checkFence(value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new NevertwiceError(
    "store-unsafe",
    "last_fence in the table nevertwice_store is damaged: set it to the highest fence in nevertwice_records.",
  );
}

/**
 * When a purge should look at the record: a little after it expires, so that a renewal or completion rarely has to move it
 * in the index. Null for a held pending record, which no purge removes.
 */
export function purgeTime(kept: Kept, before: number | null): number | null {
  const { state, hold, keptUntil, retentionMs } = kept;
  if (state === "pending" && hold) return null;
  if (before !== null && before >= keptUntil && before <= keptUntil + retentionMs / 16) return before;
  return firstPurgeTime(keptUntil, retentionMs);
}

/** The purge time of a new record. */
export function firstPurgeTime(keptUntil: number, retentionMs: number): number {
  return keptUntil + Math.floor(retentionMs / 32);
}

export function toColumns(
  kept: Kept,
): readonly [usual: SqlValue[], parts: () => SqlValue, outcome: SqlValue] {
  const usual = [
    kept.claimedAt,
    kept.state,
    toText(kept.token),
    Number(kept.spent),
    kept.fence,
    kept.number,
    Number(kept.hold),
    Number(kept.tookOver),
    kept.leaseMs,
    kept.leaseEndsAt,
    kept.retentionMs,
    kept.keptUntil,
    kept.completedAt ?? null,
    toText(kept.fingerprint),
  ];
  return [usual, () => (kept.parts === undefined ? null : partsText(kept.parts)), toText(kept.outcome)];
}

/** Some drivers cut a string at U+0000. A replay would then return half of the outcome. */
export function toText(text: string | undefined): string | null {
  if (!text?.includes("\u0000")) return text ?? null;
  throw new NevertwiceError(
    "options-invalid",
    "a token, fingerprint, outcome or step contains U+0000, which SQLite drivers cannot store.",
  );
}

/** Throws `store-unsafe` for a row that the store did not write: SQLite accepts any value in any column. */
export function fromRow(id: string, row: SqliteRow): StoredRow {
  const [
    rowid,
    purgeAt,
    claimedAt,
    state,
    token,
    spent,
    fence,
    number,
    hold,
    tookOver,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt,
    fingerprint,
    parts,
    outcome,
    steps,
    history,
  ] = row;
  const kept = checkedRecord({
    id,
    parts: parts === null ? undefined : checkedParts(id, parts),
    fingerprint: fingerprint ?? undefined,
    state,
    token,
    spent: flagFrom(spent),
    fence,
    number,
    hold: flagFrom(hold),
    tookOver: flagFrom(tookOver),
    claimedAt,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt: completedAt ?? undefined,
    outcome: outcome ?? undefined,
    steps: steps ?? undefined,
    history: history ?? undefined,
  });
  return { rowid: rowid as number, purgeAt: purgeAt as number | null, kept };
}
