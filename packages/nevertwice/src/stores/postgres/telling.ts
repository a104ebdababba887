/**
 * Tells who watches that records were settled: after the commit, what came together in one message, and nobody waits
 * for it. (In the committing transaction it would make all commits of the database queue for one lock.)
 */
import { payloadsOf } from "./payload.ts";

/** A connection that is dead keeps the next message back no longer than this. */
const SEND_MS = 1_000;

export interface Telling {
  tell(ids: readonly string[]): void;
  /** Resolves when everything is told, or could not be. */
  done(): Promise<void>;
}

export function createTelling(send: (payload: string) => Promise<void>): Telling {
  const untold = new Set<string>();
  let telling: Promise<void> | undefined;

  async function tellAll(): Promise<void> {
    while (untold.size > 0) {
      const payloads = payloadsOf(untold);
      untold.clear();
      for (const payload of payloads) await settledWithin(SEND_MS, send(payload));
    }
    telling = undefined;
  }

  return {
    tell(ids) {
      for (const id of ids) untold.add(id);
      if (untold.size > 0) telling ??= tellAll();
    },
    async done() {
      await telling;
    },
  };
}

/** A waiter that is not reached still polls, so a failure is nobody's. */
async function settledWithin(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
    timer.unref?.();
  });
  await Promise.race([work.catch(() => {}), late]);
  clearTimeout(timer);
}
