/** Shared by the Redis tests: separate keys for each test, and a store on a server. */
import { randomUUID } from "node:crypto";
import type { TestContext } from "vitest";
import { toIdentity } from "../../../src/core/identity.ts";
import type { ClaimAnswer, ClaimRequest, Parts } from "../../../src/core/store.ts";
import { type FaultProxy, startProxy } from "../../services/proxy.ts";
import { sharedUrl, startFor } from "../../services/services.ts";

export const LEASE_MS = 60_000;
export const RETENTION_MS = 3_600_000;
/** How long after it expires Redis removes a record. */
export const MARGIN_MS = 60_000;

export function claimOf(
  token: string,
  more: Partial<ClaimRequest> = {},
  named: Partial<Parts> = {},
): ClaimRequest {
  const parts = { namespace: "redis-tests", scope: "", operation: "test", key: randomUUID(), ...named };
  const terms = { leaseMs: LEASE_MS, retentionMs: RETENTION_MS, hold: false };
  return { id: toIdentity(parts).id, parts, token, ...terms, ...more };
}

export function fenceOf(answer: ClaimAnswer): number {
  if (answer.status !== "new") throw new Error(`not granted: ${answer.status}`);
  return answer.fence;
}

export const keyOf = (id: string, prefix = "nevertwice:"): string => `${prefix}{${id}}`;

/** A proxy in front of the shared server, for one test. */
export async function proxied(context: TestContext): Promise<FaultProxy> {
  const url = sharedUrl(context, "redis");
  return startFor(context, () => startProxy(url));
}
