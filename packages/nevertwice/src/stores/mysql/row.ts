/** A record as its row has it. */
import type { Kept } from "../../core/record.ts";
import type { Found } from "../compare-and-set/steps.ts";
import type { Row } from "./client.ts";

/** `now` is 0 where there is no record: then there is nothing to judge, and deadlines are written from the server's now. */
const NOTHING: Found = { record: undefined, mark: "", now: 0 };

export function foundIn(row: Row | undefined): Found {
  if (row === undefined) return NOTHING;
  return { record: recordOf(row), mark: textOf(row, "mark"), now: millisOf(row, "now_us") };
}

export function recordOf(row: Row): Kept {
  return {
    id: textOf(row, "id"),
    parts: isNull(row, "key")
      ? undefined
      : {
          namespace: textOf(row, "namespace"),
          scope: textOf(row, "scope"),
          operation: textOf(row, "operation"),
          key: textOf(row, "key"),
        },
    fingerprint: isNull(row, "fingerprint") ? undefined : textOf(row, "fingerprint"),
    state: textOf(row, "state") as Kept["state"],
    token: textOf(row, "token"),
    spent: numberOf(row, "spent") === 1,
    fence: numberOf(row, "fence"),
    number: numberOf(row, "number"),
    hold: numberOf(row, "hold") === 1,
    tookOver: numberOf(row, "took_over") === 1,
    claimedAt: millisOf(row, "claimed_at"),
    leaseMs: numberOf(row, "lease_ms"),
    leaseEndsAt: millisOf(row, "lease_ends_at"),
    retentionMs: numberOf(row, "retention_ms"),
    keptUntil: millisOf(row, "kept_until"),
    completedAt: isNull(row, "completed_at") ? undefined : millisOf(row, "completed_at"),
    outcome: isNull(row, "outcome") ? undefined : textOf(row, "outcome"),
  };
}

function isNull(row: Row, column: string): boolean {
  return row[column] === null || row[column] === undefined;
}

export function textOf(row: Row, column: string): string {
  return row[column]?.toString("utf8") ?? "";
}

export function numberOf(row: Row, column: string): number {
  return Number(textOf(row, column));
}

export function millisOf(row: Row, column: string): number {
  return numberOf(row, column) / 1_000;
}
