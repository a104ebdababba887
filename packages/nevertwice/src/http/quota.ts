/**
 * Limits the keys and bytes that are stored, for one scope and for all scopes together, so that a flood of new keys
 * cannot fill the store. All processes on a store share the counts. A key that the store knows is answered even if a limit
 * is reached.
 */
import { utf8Bytes } from "#platform";
import type { Clock } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { HttpOptions, LimitName, QuotaLimits } from "./options.ts";
import { createBudget, type QuotaBudget } from "./quota-budget.ts";
import type { KeptResponse } from "./replay.ts";
import type { ResolvedHttpOptions } from "./resolved-options.ts";

export interface Quota {
  /**
   * Counts a key before it is claimed. `isKnown` asks the store whether it has the key; it is called only if nothing is
   * left to spend. Throws `quota-exceeded`, or the store's error unless `onUnavailable` is `"proceed"`.
   */
  admit(scope: string | undefined, isKnown: () => Promise<boolean>): Promise<Charge>;
}

/** The amount that one request was charged. */
export interface Charge {
  /** Call it for a request that created no new key. */
  giveBack(): void;
  /** Counts the bytes of a kept response. */
  keep(kept: KeptResponse): void;
}

/** The budgets of one scope, or of all scopes together. */
interface Budgets {
  readonly keys: QuotaBudget | undefined;
  readonly bytes: QuotaBudget | undefined;
}

/** Callers can invent scopes, so only the most recent ones are remembered. */
const MAX_SCOPES = 10_000;

const EXCEEDED: Readonly<Record<LimitName, string>> = {
  keys: "this caller has reached its limit of stored keys.",
  bytes: "the kept responses of this caller have reached their limit of bytes.",
  totalKeys: "all callers together have reached the limit of stored keys.",
  totalBytes: "the kept responses of all callers together have reached the limit of bytes.",
};

interface SharedQuota {
  readonly name: string;
  readonly clock: Clock;
  readonly quota: Quota;
}

const sharedBy = new WeakMap<Engine, SharedQuota[]>();

/**
 * The quota of a layer. Layers of one guard with the same limits share one quota: a process with a layer for each of its
 * routes holds no more blocks than a process with a single layer.
 */
export function findOrCreateQuota<Native>(
  guard: Engine,
  options: HttpOptions<Native>,
  { quota: limits, guard: engine, clock }: ResolvedHttpOptions<Native>,
): Quota | undefined {
  if (limits === undefined) return undefined;
  const { profile, retentionMs, expired, refuseMs, maxRunMs, storeTimeoutMs, maxOutcomeBytes } = options;
  const { onUnavailable } = engine.policy;
  const kept = [profile, retentionMs, expired, refuseMs, maxRunMs];
  const name = JSON.stringify([limits, kept, storeTimeoutMs, maxOutcomeBytes, onUnavailable]);
  const shared = sharedBy.get(guard) ?? [];
  sharedBy.set(guard, shared);
  const alike = shared.find((other) => other.name === name && other.clock === clock);
  if (alike !== undefined) return alike.quota;
  const quota = createQuota(engine, limits, () => clock.now());
  shared.push({ name, clock, quota });
  return quota;
}

export function createQuota(engine: Engine, limits: QuotaLimits, now: () => number): Quota {
  const scopes = new Map<string, Budgets>();

  function createBudgetFor(name: LimitName, scope: string | undefined): QuotaBudget | undefined {
    const limit = limits[name];
    return limit === undefined ? undefined : createBudget(engine, { name, limit, scope }, now);
  }

  const totals: Budgets = {
    keys: createBudgetFor("totalKeys", undefined),
    bytes: createBudgetFor("totalBytes", undefined),
  };

  function findBudgets(scope: string | undefined): Budgets {
    const name = scope ?? "";
    const budgets = scopes.get(name) ?? {
      keys: createBudgetFor("keys", scope),
      bytes: createBudgetFor("bytes", scope),
    };
    scopes.delete(name);
    scopes.set(name, budgets);
    const [oldest] = scopes.keys();
    if (scopes.size > MAX_SCOPES && oldest !== undefined) scopes.delete(oldest);
    return budgets;
  }

  function chargeTo(own: Budgets, isCounted: boolean): Charge {
    const back = isCounted ? [totals.keys?.take(), own.keys?.take()] : [];
    return {
      giveBack() {
        for (const give of back) give?.();
      },
      keep(kept) {
        const bytes = countKeptBytes(kept, engine.policy.maxOutcomeBytes);
        totals.bytes?.spend(bytes);
        own.bytes?.spend(bytes);
      },
    };
  }

  /** Nothing is awaited between the check of the budgets and the charge, so no other request can spend in between. */
  async function open(own: () => Budgets, isKnown: () => Promise<boolean>): Promise<Charge> {
    // While a total limit is reached, no scope is remembered, so invented scopes cannot evict real ones.
    const closedNow = () => firstClosed(totals) ?? firstClosed(own());
    let closed = closedNow();
    if (closed !== undefined && (await isKnown())) return chargeTo(own(), false);
    for (; closed !== undefined; closed = closedNow()) {
      if (!(await closed.refill())) throw new NevertwiceError("quota-exceeded", EXCEEDED[closed.of.name]);
    }
    return chargeTo(own(), true);
  }

  return {
    async admit(scope, isKnown) {
      let found: Budgets | undefined;
      const own = () => {
        found ??= findBudgets(scope);
        return found;
      };
      try {
        return await open(own, isKnown);
      } catch (error) {
        if (engine.policy.onUnavailable === "refuse" || !isNevertwiceError(error, "unavailable")) throw error;
        return chargeTo(own(), false);
      }
    },
  };
}

function firstClosed({ keys, bytes }: Budgets): QuotaBudget | undefined {
  return keys?.isOpen() === false ? keys : bytes?.isOpen() === false ? bytes : undefined;
}

/** Headers and body. A response that is too large is kept without its body. */
function countKeptBytes([, headers, body]: KeptResponse, maxBytes: number): number {
  const head = headers.reduce((sum, text) => sum + text.length, 0);
  const content = typeof body === "string" ? utf8Bytes(body) : (body?.byteLength ?? 0);
  return head + (content > maxBytes ? 0 : content);
}
