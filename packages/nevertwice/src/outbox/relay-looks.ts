/** Decides where a claim looks for messages, and at how many, by what the last claim found. */
import { systemTimer as timer } from "../core/clock.ts";
import { MAX_BATCH } from "./relay-options.ts";
import type { OutboxClaim, OutboxClaimReply } from "./store.ts";

type Look = Pick<OutboxClaim, "limit" | "lateLimit" | "from">;

export interface Looks {
  next(): Look;
  note(reply: OutboxClaimReply, look: Look): void;
}

/** How often to look at new rows from the first on: a message whose transaction commits late waits no longer than this. */
const FULL_LOOK_MS = 1_000;

export function createLooks(batch: number): Looks {
  let limit = batch;
  let hasFresh = false;
  let from = "0";
  let fullLookAt = 0;
  return {
    next() {
      if (timer.now() >= fullLookAt) {
        from = "0";
        fullLookAt = timer.now() + FULL_LOOK_MS;
      }
      // While there are new messages, those whose time has come get half of a claim.
      return { limit, lateLimit: hasFresh ? Math.ceil(limit / 2) : limit, from };
    },
    note({ messages, changed, first }, look) {
      // Most rows were put behind others: look at more of them, to find other messages beside those of a busy key.
      limit = changed - messages.length > look.limit / 2 ? MAX_BATCH : batch;
      hasFresh = first !== undefined;
      // Without a new row, the next one has a higher number than all before it; a full look finds the others.
      from = first ?? from;
    },
  };
}
