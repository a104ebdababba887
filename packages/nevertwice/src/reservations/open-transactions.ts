/**
 * Whether to expect that the application has transactions open which hold keys or resources. The store's own transactions
 * must not wait for those, but looking for them first costs something. So they look first only while this process has met
 * such a transaction recently; otherwise they look when a lock is not free.
 */
export interface OpenTransactions {
  areExpected(): boolean;
  /** Called when this process joins a transaction of the application, or meets one of another process. */
  expect(): void;
}

/** Long enough that a process beside regular transactions rarely has to find out by waiting. */
const EXPECTED_MS = 10_000;

export function createOpenTransactions(): OpenTransactions {
  let expectedUntil = Number.NEGATIVE_INFINITY;
  return {
    areExpected: () => performance.now() < expectedUntil,
    expect() {
      expectedUntil = performance.now() + EXPECTED_MS;
    },
  };
}
