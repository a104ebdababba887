/** Whoever watches a key hears when it is worth asking again, and no more once it has stopped watching. */
import { expect } from "./expect.ts";
import { type Case, type Cases, sleep } from "./trial.ts";
import { EVERY_AS, type Work } from "./work.ts";

/** A waiter polls more often than this, so a later wake-up is as good as none. */
const WAKE_WITHIN_MS = 3_000;
/** How long a wake-up that must not come is given to come. */
const STRAGGLER_MS = 20;

interface Waiter {
  /** How often it was woken. */
  woken(): number;
  /** Whether it was woken in time; it watches no longer then. */
  wakes(): Promise<boolean>;
  stop(): void;
}

/** Since a waiter may be woken for nothing, only those wake-ups count on which `found` finds what it looks for. */
async function watching(work: Work, found: () => Promise<boolean> = async () => true): Promise<Waiter> {
  let woken = 0;
  let heard: () => void = () => undefined;
  const hearing = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const stop = await work.watch(() => {
    woken++;
    // A read that fails finds nothing: then the waiter is told that it was not woken in time.
    found().then(
      (is) => is && heard(),
      () => undefined,
    );
  });
  return {
    woken: () => woken,
    async wakes() {
      const inTime = await within(WAKE_WITHIN_MS, hearing);
      stop();
      return inTime;
    },
    stop,
  };
}

async function within(ms: number, event: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const inTime = await Promise.race([event.then(() => true), late]);
  clearTimeout(timer);
  return inTime;
}

const why = "A waiter that is not woken sleeps until its next poll, and its caller with it.";

export const waitersWake: Cases = {
  "a waiter is woken by complete": {
    needs: ["watch"],
    why,
    async check({ work }) {
      const owner = await work.begin();
      const waiter = await watching(work);
      await owner.complete();
      expect("whether the waiter is woken", await waiter.wakes(), true);
    },
  },
  ...Object.fromEntries(
    EVERY_AS.map((as): [string, Case] => [
      `a waiter is woken by abandon as ${as}`,
      {
        needs: ["watch"],
        why,
        async check({ work }) {
          const owner = await work.begin();
          const waiter = await watching(work);
          await owner.abandon(as);
          expect("whether the waiter is woken", await waiter.wakes(), true);
        },
      },
    ]),
  ),
  "a waiter is woken by forget": {
    needs: ["watch", "forget"],
    why,
    async check({ work }) {
      const owner = await work.begin({ hold: true });
      await owner.abandon("unknown");
      const waiter = await watching(work);
      await work.forget(owner.fence);
      expect("whether the waiter is woken", await waiter.wakes(), true);
    },
  },
  "a waiter is woken by reopen": {
    needs: ["watch", "forget"],
    why,
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      const waiter = await watching(work);
      await work.reopen(owner.fence);
      expect("whether the waiter is woken", await waiter.wakes(), true);
    },
  },
  "every waiter of a key is woken": {
    needs: ["watch"],
    why,
    async check({ work }) {
      const owner = await work.begin();
      const waiters = await Promise.all(Array.from({ length: 5 }, () => watching(work)));
      await owner.complete();
      const woken = await Promise.all(waiters.map((waiter) => waiter.wakes()));
      expect("whether the waiters are woken", woken, [true, true, true, true, true]);
    },
  },
  "a key may be watched before anybody claims it": {
    needs: ["watch"],
    why: "A waiter that watched a key whose record went must not have watched in vain.",
    async check({ work }) {
      const waiter = await watching(work);
      await (await work.begin()).complete();
      expect("whether the waiter is woken", await waiter.wakes(), true);
    },
  },
  "a woken waiter finds what it was woken for": {
    needs: ["watch"],
    why: "Woken before the outcome is there, it finds the key pending and goes back to sleep.",
    async check({ work }) {
      const owner = await work.begin();
      const waiter = await watching(work, async () => (await work.read())?.state === "completed");
      await owner.complete();
      expect("whether the waiter finds the outcome when it is woken", await waiter.wakes(), true);
    },
  },
  "a waiter that stopped is not woken, and the others still are": {
    needs: ["watch"],
    why: "A subscription that outlives its waiter is a leak; one that ends with another's is a waiter lost.",
    async check({ work }) {
      const owner = await work.begin();
      const [stopped, staying] = [await watching(work), await watching(work)];
      stopped.stop();
      const before = stopped.woken();
      await owner.complete();
      expect("whether the other waiter is woken", await staying.wakes(), true);
      await sleep(STRAGGLER_MS);
      expect("how often the waiter that stopped was woken", stopped.woken() - before, 0);
    },
  },
};
