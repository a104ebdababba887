/** Stores for the tests of the etcd store, each with keys of its own on the shared cluster. */
import { randomBytes } from "node:crypto";
import { inject, type TestContext } from "vitest";
import type { Store } from "../../../src/core/store.ts";
import { type EtcdStoreOptions, etcdStore } from "../../../src/stores/etcd.ts";
import { manualClock } from "../../../src/testing/manual-clock.ts";
import { sharedUrl } from "../../services/services.ts";

/** The client URLs in an `etcd://` URL. */
export function endpointsIn(url: string): readonly string[] {
  return url
    .replace("etcd://", "")
    .split(",")
    .map((address) => `http://${address}`);
}

export function newPrefix(): string {
  return `test-${randomBytes(6).toString("hex")}`;
}

/** A wall clock that a test may turn back, and the monotonic clock beside it, which only goes on. */
export function etcdClocks() {
  const clock = manualClock();
  const monotonicClock = manualClock(0);
  return {
    clock,
    monotonicClock,
    advance(ms: number) {
      clock.advance(ms);
      if (ms > 0) monotonicClock.advance(ms);
    },
  };
}

/** A busy machine may take long to answer. */
export const PATIENCE = { memberTimeoutMs: 10_000, timeoutMs: 30_000 };

/** A store on the shared cluster that is closed when the test ends. */
export function openEtcd(
  context: Pick<TestContext, "skip" | "onTestFinished">,
  options: Partial<EtcdStoreOptions> = {},
): Store {
  const endpoints = endpointsIn(sharedUrl(context, "etcd"));
  const store = etcdStore({ endpoints, prefix: newPrefix(), clockSkewMs: 0, ...PATIENCE, ...options });
  context.onTestFinished(() => store.close());
  return store;
}

/** Two stores on the same keys, like those of two processes. */
export function etcdPair(context: TestContext): [Store, Store] {
  const prefix = newPrefix();
  return [openEtcd(context, { prefix }), openEtcd(context, { prefix })];
}

/** A store on the shared cluster, with clocks that `advance` moves. */
export function newEtcdStore(options: Partial<EtcdStoreOptions> = {}): {
  readonly store: Store;
  advance(ms: number): void;
} {
  const { advance, ...clocks } = etcdClocks();
  const endpoints = endpointsIn(String(inject("services").etcd));
  const store = etcdStore({
    endpoints,
    prefix: newPrefix(),
    clockSkewMs: 0,
    ...PATIENCE,
    ...clocks,
    ...options,
  });
  return { store, advance };
}
