/** Refuses claims on a Redis that must not store them. */
import { NevertwiceError } from "../../core/errors.ts";
import type { RedisAdapter, RedisNode } from "./client.ts";
import type { ClientListeners } from "./client-listeners.ts";
import { REPLICA, readReplicas, readServerFacts, unsafeReason } from "./durability.ts";
import { translateErrors } from "./errors.ts";

/** The longest time between two checks. Shortened at random, so that not all processes check at once. */
const CHECK_EVERY_MS = 10_000;

/** When a check that failed is repeated. */
const CHECK_AGAIN_MS = 500;

export interface SafetyCheck {
  /** Undefined if a claim may proceed at once, else a promise to await first. Rejects with `store-unsafe`. */
  check(): Promise<void> | undefined;
}

/**
 * Checks whether Redis may store claims: before the first claim, after every lost connection and every change of a cluster's
 * masters, and then at intervals, since settings can change and another server may answer at the same address. No claim is
 * granted on an older check. There is no timer: the claim that finds the check due runs it.
 */
export function createSafetyCheck(adapter: RedisAdapter, listeners: ClientListeners): SafetyCheck {
  let isKnownSafe = false;
  let wasSafe = false;
  let safeUntil = 0;
  let lossesAtCheck = 0;
  let topologyAtCheck: unknown;
  let checking: Promise<void> | undefined;

  function isDue(): boolean {
    return (
      listeners.losses() !== lossesAtCheck ||
      adapter.topology?.() !== topologyAtCheck ||
      performance.now() >= safeUntil
    );
  }

  function markChecked(losses: number): void {
    lossesAtCheck = losses;
    topologyAtCheck = adapter.topology?.();
    safeUntil = performance.now() + CHECK_EVERY_MS * (0.5 + Math.random() / 2);
  }

  async function checkAll(): Promise<void> {
    // Counted first, so that a connection that is lost during the check causes another one.
    const losses = listeners.losses();
    const masters = await translateErrors(adapter.masters().then(readServerFacts));
    // A replica may be the next master.
    const { answered } = await readReplicas(adapter);
    const reason = [...masters, ...answered].map(unsafeReason).find((each) => each !== undefined);
    isKnownSafe = reason === undefined;
    if (reason !== undefined)
      throw new NevertwiceError(wasSafe && reason === REPLICA ? "unavailable" : "store-unsafe", `${reason}.`);
    wasSafe = true;
    markChecked(losses);
  }

  /** If a server is no longer safe, the next claim checks all. A server that cannot be reached is checked when it is back. */
  async function checkEach(): Promise<void> {
    markChecked(listeners.losses());
    const checkNode = async (node: RedisNode): Promise<void> => {
      if ((await readServerFacts([node])).some((facts) => unsafeReason(facts) !== undefined))
        isKnownSafe = false;
    };
    await Promise.allSettled([...(await adapter.masters()), ...(adapter.replicas?.() ?? [])].map(checkNode));
  }

  return {
    check() {
      if (isKnownSafe && !isDue()) return undefined;
      if (isKnownSafe && adapter.isCluster) {
        // Not awaited: a node that cannot be reached must not delay claims on the others.
        checkEach().catch(() => {
          // The client does not know its servers at the moment, as during a failover.
          safeUntil = Math.min(safeUntil, performance.now() + CHECK_AGAIN_MS);
        });
        return undefined;
      }
      checking ??= checkAll().finally(() => {
        checking = undefined;
      });
      return checking;
    },
  };
}
