/** A record as its item has it: one attribute a member, named as in the contract, readable by people. */
import type { Kept } from "../../core/record.ts";
import type { Item } from "./documents.ts";

/** The table's own attribute for removing items by itself ("TTL"), in seconds. */
export const PURGE_AT = "purgeAt";

export interface Marked {
  readonly record: Kept;
  readonly mark: string;
}

/** `lateMs` is how much later than the record's own time the table may remove it. */
export function toItem({ record, mark }: Marked, lateMs: number): Item {
  const { parts, ...members } = record;
  const isHeld = record.state === "pending" && record.hold;
  const purgeAt = isHeld ? undefined : purgeAtOf(record.keptUntil, lateMs);
  const item = { ...members, ...parts, mark, [PURGE_AT]: purgeAt };
  // The SDK refuses what is undefined unless it was told otherwise.
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));
}

export function purgeAtOf(keptUntil: number, lateMs: number): number {
  return Math.ceil((keptUntil + lateMs) / 1_000);
}

export function fromItem(item: Item): Marked {
  const isCompleted = item.state === "completed";
  const record: Kept = {
    id: textOf(item.id),
    parts:
      item.operation === undefined
        ? undefined
        : {
            namespace: textOf(item.namespace),
            scope: textOf(item.scope),
            operation: textOf(item.operation),
            key: textOf(item.key),
          },
    fingerprint: item.fingerprint === undefined ? undefined : textOf(item.fingerprint),
    state: item.state as Kept["state"],
    token: textOf(item.token),
    spent: item.spent === true,
    fence: Number(item.fence),
    number: Number(item.number),
    hold: item.hold === true,
    tookOver: item.tookOver === true,
    claimedAt: Number(item.claimedAt),
    leaseMs: Number(item.leaseMs),
    leaseEndsAt: Number(item.leaseEndsAt),
    retentionMs: Number(item.retentionMs),
    keptUntil: Number(item.keptUntil),
    completedAt: isCompleted ? Number(item.completedAt) : undefined,
    outcome: isCompleted ? textOf(item.outcome) : undefined,
  };
  return { record, mark: textOf(item.mark) };
}

/** A client may be set up to write empty text as null, and numbers come as objects from some. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** An item as it comes with an error: the SDK translates answers only. */
export function fromAttributes(attributes: Readonly<Record<string, unknown>>): Item {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => {
      const { S, N, BOOL } = value as { S?: string; N?: string; BOOL?: boolean };
      return [name, S ?? (N === undefined ? (BOOL ?? null) : Number(N))];
    }),
  );
}
