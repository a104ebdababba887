/** Purges a store in the background, as the guards of an application do, and counts what is removed. */
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";

/** A guard that only purges, and counts what it removes. `stop` resolves when the last step of the purge has ended. */
export async function startPurging(
  store: Store,
): Promise<() => Promise<{ removed: number; seconds: number }>> {
  const startedAt = performance.now();
  let removed = 0;
  let bite: Promise<unknown> = Promise.resolve();
  const purging: Store = {
    ...store,
    async purge(limit) {
      const biting = store.purge(limit);
      bite = biting;
      const answer = await biting;
      removed += answer.removed;
      return answer;
    },
  };
  const guard = createGuard({ store: purging, purgeEveryMs: 1 });
  // Purges start with the guard's first call.
  await guard.ready();
  return async () => {
    await guard.close();
    await bite;
    return { removed, seconds: (performance.now() - startedAt) / 1_000 };
  };
}
