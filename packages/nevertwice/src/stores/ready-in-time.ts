/** Waits for a store's check of its tables, but not for ever. */

/** How long a claim in a transaction of the application waits for the check. */
const READY_MS = 1_000;

/**
 * Resolves when the check has passed, and rejects as it does. Resolves as well if the check has not ended in time: it needs a
 * connection of its own, and the transactions that wait for it may have all connections of the pool.
 */
export function readyInTime(checked: Promise<unknown>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, READY_MS);
    checked.then(() => resolve(), reject).finally(() => clearTimeout(timer));
  });
}
