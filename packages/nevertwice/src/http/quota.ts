/**
 * Limits the keys and bytes that are alive, of one scope and of all together, so that a flood of new keys cannot fill
 * the store. All processes on a store share the counts. A key that the store knows is answered even if a limit is reached.
 */
import { Buffer } from "node:buffer";
import type { Clock } from "../core/clock.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { HttpOptions, LimitName, QuotaLimits } from "./options.ts";
import { type Budget, createBudget } from "./quota-budget.ts";
import type { KeptResponse } from "./replay.ts";
import type { Settings } from "./settings.ts";

export interface Quota {
  /**
   * Counts a key before it is claimed. `isKnown` asks the store whether it has the key; that is done only where there
   * is nothing left to spend. Fails with `quota-exceeded`, or as the store does unless the policy says to proceed.
   */
  admit(scope: string | undefined, isKnown: () => Promise<boolean>): Promise<Charge>;
}

/** What one request is charged. */
export interface Charge {
  /** For a request that created no new key. */
  giveBack(): void;
  /** Counts the bytes of an answer that is kept. */
  keep(kept: KeptResponse): void;
}

/** The budgets of one scope, or of all together. */
interface Budgets {
  readonly keys: Budget | undefined;
  readonly bytes: Budget | undefined;
}

/** Callers can invent scopes, so only the most recent ones are remembered. */
const MAX_SCOPES = 10_000;

const EXCEEDED: Readonly<Record<LimitName, string>> = {
  keys: "this caller has as many keys alive as it may have.",
  bytes: "the kept answers of this caller have as many bytes as they may have.",
  totalKeys: "all callers together have as many keys alive as they may have.",
  totalBytes: "the kept answers of all callers together have as many bytes as they may have.",
};

interface Shared {
  readonly name: string;
  readonly clock: Clock;
  readonly quota: Quota;
}

const sharedBy = new WeakMap<Engine, Shared[]>();

/**
 * The quota of a layer. Layers of one guard that count alike share theirs: a process that has a layer for each of its
 * routes holds no more blocks than one that has a single layer.
 */
export function quotaOf<Native>(
  guard: Engine,
  options: HttpOptions<Native>,
  { quota: limits, guard: engine, clock }: Settings<Native>,
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

  function budgetOf(name: LimitName, scope: string | undefined): Budget | undefined {
    const limit = limits[name];
    return limit === undefined ? undefined : createBudget(engine, { name, limit, scope }, now);
  }

  const totals: Budgets = {
    keys: budgetOf("totalKeys", undefined),
    bytes: budgetOf("totalBytes", undefined),
  };

  function budgetsOf(scope: string | undefined): Budgets {
    const name = scope ?? "";
    const budgets = scopes.get(name) ?? { keys: budgetOf("keys", scope), bytes: budgetOf("bytes", scope) };
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
        const bytes = bytesOf(kept, engine.policy.maxOutcomeBytes);
        totals.bytes?.spend(bytes);
        own.bytes?.spend(bytes);
      },
    };
  }

  /** Nothing is awaited between the look at the budgets and the charge, so no other request can spend what was seen. */
  async function open(own: () => Budgets, isKnown: () => Promise<boolean>): Promise<Charge> {
    // While a total is reached no scope is remembered, so invented scopes cannot push out real ones.
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
        found ??= budgetsOf(scope);
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

function firstClosed({ keys, bytes }: Budgets): Budget | undefined {
  return keys?.isOpen() === false ? keys : bytes?.isOpen() === false ? bytes : undefined;
}

/** Header and body; an answer that is too large is kept without its body. */
function bytesOf([, headers, body]: KeptResponse, maxBytes: number): number {
  const head = headers.reduce((sum, text) => sum + text.length, 0);
  const content = body === null ? 0 : Buffer.byteLength(body);
  return head + (head + content > maxBytes ? 0 : content);
}
