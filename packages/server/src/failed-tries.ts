/**
 * Slows down guessing of access tokens: an address that sent too many wrong tokens within a minute has to wait. Each
 * server counts on its own, in bounded memory.
 */
import { createHash } from "node:crypto";
import type { NevertwiceError } from "nevertwice";
import { clientNetwork } from "./client-network.ts";
import { tooManyRequests } from "./problems.ts";

/** Wrong tokens that one address may send within `WINDOW_MS`. */
export const MAX_FAILURES = 20;
export const WINDOW_MS = 60_000;
/** The most addresses with their own count; all others share one count. */
const MAX_ADDRESSES = 10_000;
/** Wrong tokens that all addresses with the shared count may send within `WINDOW_MS`. */
const MAX_SHARED_FAILURES = 1_000;
/** How long a token that was accepted from an address stays exempt there. */
const EXEMPT_MS = 3_600_000;
const MAX_EXEMPT = 10_000;

export interface FailedTries {
  /**
   * Returns the result of `verify`; undefined counts as a failure of the address. Throws `quota-exceeded` while the
   * address has too many failures, unless this token was accepted from it within the last hour: someone who guesses
   * through the same proxy must not lock out running services.
   */
  attempt<T>(
    address: string | undefined,
    token: string,
    verify: () => Promise<T | undefined>,
  ): Promise<T | undefined>;
}

interface Count {
  failures: number;
  readonly until: number;
}

export function createFailedTries(
  now: () => number = () => performance.now(),
  maxAddresses: number = MAX_ADDRESSES,
): FailedTries {
  /** In the order of `until`. */
  const counts = new Map<string, Count>();
  const exempt = new Map<string, number>();
  let shared: Count = { failures: 0, until: 0 };

  function countFailure(source: string): { readonly count: Count; readonly most: number } {
    for (const [known, { until }] of counts) {
      if (until > now()) break;
      counts.delete(known);
    }
    const fresh = { failures: 0, until: now() + WINDOW_MS };
    const isShared = !counts.has(source) && counts.size >= maxAddresses;
    if (isShared && shared.until <= now()) shared = fresh;
    const count = isShared ? shared : (counts.get(source) ?? fresh);
    if (!isShared) counts.set(source, count);
    count.failures++;
    return { count, most: isShared ? MAX_SHARED_FAILURES : MAX_FAILURES };
  }

  function isExempt(id: string): boolean {
    return (exempt.get(id) ?? 0) > now();
  }

  function keepExempt(id: string): void {
    exempt.delete(id);
    exempt.set(id, now() + EXEMPT_MS);
    if (exempt.size <= MAX_EXEMPT) return;
    const [oldest] = exempt.keys();
    exempt.delete(oldest as string);
  }

  function refusal({ until }: Count): NevertwiceError {
    return tooManyRequests(
      "too many wrong access tokens came from this address; wait, then send a valid one.",
      Math.ceil((until - now()) / 1_000),
    );
  }

  return {
    async attempt(address, token, verify) {
      const source = clientNetwork(address);
      const id = createHash("sha256").update(`${source}\n${token}`).digest("base64");
      const known = counts.get(source);
      const isBlocked = known !== undefined && known.until > now() && known.failures >= MAX_FAILURES;
      if (isBlocked && !isExempt(id)) throw refusal(known);
      const found = await verify();
      if (found !== undefined) {
        keepExempt(id);
        return found;
      }
      // Concurrent guesses all pass the check above, so the count is checked again.
      const { count, most } = countFailure(source);
      if (count.failures > most) throw refusal(count);
      return undefined;
    },
  };
}
