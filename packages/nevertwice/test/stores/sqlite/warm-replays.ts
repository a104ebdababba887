/** Makes a store answer replays in the caller's thread, which it does only while they are frequent. */
import type { Store } from "../../../src/core/store.ts";
import { claimOf, completionOf } from "./scratch.ts";

/** More than enough for the rate of replays to be high, whatever the claims before were. */
const REPLAYS = 64;

/** Replays one record until replays are frequent, and the connection for them is open. */
export async function warmReplays(store: Store, key = "warm"): Promise<void> {
  await store.claim(claimOf(key));
  await store.complete(completionOf(key));
  await replayOften(store, key);
  // The connection is opened in the background, when replays are frequent for the first time.
  await new Promise((resolve) => setTimeout(resolve, 50));
}

async function replayOften(store: Store, key: string): Promise<void> {
  for (let i = 0; i < REPLAYS; i++) await store.claim(claimOf(key, { token: "other" }));
}

/** The same store, with many replays in front of each claim: every claim is first looked up in the caller's thread. */
export function withFrequentReplays(store: Store): Store {
  let warmed: Promise<void> | undefined;
  return {
    ...store,
    async claim(request) {
      warmed ??= warmReplays(store);
      await warmed;
      await replayOften(store, "warm");
      return store.claim(request);
    },
  };
}
