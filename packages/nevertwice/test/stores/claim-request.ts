/** A claim of a key with a new token, as an engine requests it from a store. */
import { randomUUID } from "node:crypto";
import type { ClaimRequest } from "../../src/core/store.ts";

export function claimOf(key: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    id: `id-${key}`,
    parts: { namespace: "n", scope: "s", operation: "o", key },
    token: randomUUID(),
    leaseMs: 60_000,
    retentionMs: 3_600_000,
    hold: false,
    ...more,
  };
}
