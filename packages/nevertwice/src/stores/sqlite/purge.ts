/** A purge in several messages to the thread that writes. */
import type { PurgeReport } from "../../core/store.ts";
import type { StoreCall } from "./calls.ts";

/** In each message. Meanwhile the thread takes no claims. */
const PURGED_AT_ONCE = 100;

/** Claims go between the parts. A caller that asks for 500 records gets as many, so that `more` means what it asked. */
export async function purgeInParts(
  run: (call: StoreCall) => Promise<unknown>,
  limit: number,
): Promise<PurgeReport> {
  let removed = 0;
  while (removed < limit) {
    const wanted = Math.min(limit - removed, PURGED_AT_ONCE);
    const found = (await run(["purge", wanted])) as number;
    removed += found;
    if (found < wanted) break;
  }
  return { removed, more: removed >= limit };
}
