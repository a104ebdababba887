/** Times claims of fresh keys, at a steady rate that does not depend on the answers, or one after another. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { toIdentity } from "../../src/core/identity.ts";
import type { Store } from "../../src/core/store.ts";

const RETENTION_MS = 86_400_000;

/** Claims a key that was never claimed before, and returns how many milliseconds it took. */
async function timeClaim(store: Store): Promise<number> {
  const parts = { namespace: "scale", scope: "", operation: "load", key: randomUUID() };
  const { id } = toIdentity(parts);
  const request = { id, parts, token: randomUUID(), leaseMs: 30_000, retentionMs: RETENTION_MS, hold: false };
  const startedAt = performance.now();
  const answer = await store.claim(request);
  const tookMs = performance.now() - startedAt;
  if (answer.status !== "new") throw new Error(`a fresh key was ${answer.status}`);
  return tookMs;
}

/** Sends claims at this rate for this long, and resolves when all are answered. */
export async function claimSteadily(store: Store, perSecond: number, forMs: number): Promise<number[]> {
  const claims: Promise<number>[] = [];
  const startedAt = performance.now();
  for (let passedMs = 0; passedMs < forMs; passedMs = performance.now() - startedAt) {
    while (claims.length < (passedMs * perSecond) / 1_000) claims.push(timeClaim(store));
    await sleep(1);
  }
  return Promise.all(claims);
}

/** Claims many keys at once, and returns how many milliseconds all of them took. */
export async function timeClaimsAtOnce(store: Store, claims: number): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: claims }, () => timeClaim(store)));
  return performance.now() - startedAt;
}

export async function claimOneByOne(store: Store, claims: number): Promise<number[]> {
  const took: number[] = [];
  while (took.length < claims) took.push(await timeClaim(store));
  return took;
}
