/** A waiter that watches a key is woken when a new claim can succeed, and not after it has stopped watching. */
import { expect } from "./expect.ts";
import { type GuaranteeCase, type GuaranteeCases, sleep } from "./trial.ts";
import { type CaseWork, EVERY_AS } from "./work.ts";

/** A waiter polls more often than this, so a later wake-up is useless. A slow store has the time of some reads as well. */
const WAKE_WITHIN_MS = 3_000;
const WAKE_WITHIN_READS = 10;
/** How long the case waits for a wake-up that must not come. */
const STRAGGLER_MS = 20;

interface WakeCounter {
  /** How often it was woken. */
  woken(): number;
  /** Whether it was woken in time; it watches no longer then. */
  wakes(): Promise<boolean>;
  stop(): void;
}

/** A waiter may be woken without a reason, so a wake-up counts only if `found` resolves to true. */
async function watching(
  work: CaseWork,
  found: () => Promise<boolean> = async () => true,
): Promise<WakeCounter> {
  let woken = 0;
  let heard: () => void = () => undefined;
  const hearing = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const stop = await work.watch(() => {
    woken++;
    // A read that fails finds nothing, and the waiter counts as not woken in time.
    found().then(
      (is) => is && heard(),
      () => undefined,
    );
  });
  return {
    woken: () => woken,
    async wakes() {
      const inTime = await isInTime(work, hearing);
      stop();
      return inTime;
    },
    stop,
  };
}

async function isInTime(work: CaseWork, event: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, WAKE_WITHIN_MS);
  });
  const tooLate = late.then(async () => {
    for (let reads = 0; reads < WAKE_WITHIN_READS; reads++) await work.read();
    return false;
  });
  const inTime = await Promise.race([event.then(() => true), tooLate]);
  clearTimeout(timer);
  return inTime;
}

const why = "A waiter that is not woken sleeps until its next poll, and its caller with it.";

export const waitersWake: GuaranteeCases = {
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
    EVERY_AS.map((as): [string, GuaranteeCase] => [
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
    why: "A waiter may watch a key whose record was removed, and must still be woken.",
    async check({ work }) {
      const waiter = await watching(work);
      await (await work.begin()).complete();
      expect("whether the waiter is woken", await waiter.wakes(), true);
    },
  },
  "a woken waiter finds what it was woken for": {
    needs: ["watch"],
    why: "A waiter that is woken before the outcome is stored finds the key pending and sleeps again.",
    async check({ work }) {
      const owner = await work.begin();
      const waiter = await watching(work, async () => (await work.read())?.state === "completed");
      await owner.complete();
      expect("whether the waiter finds the outcome when it is woken", await waiter.wakes(), true);
    },
  },
  "a waiter that stopped is not woken, and the others still are": {
    needs: ["watch"],
    why: "A subscription that outlives its waiter leaks, and one that ends with another waiter's loses a wake-up.",
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
