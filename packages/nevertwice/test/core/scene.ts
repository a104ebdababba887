/** A guard on a memory store behind a faulty network, all in virtual time: nothing here sleeps. */

import type { Timer } from "../../src/core/clock.ts";
import { createEngine, type Engine, type GuardOptions } from "../../src/core/engine.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import type { Subject } from "../../src/core/request.ts";
import type { Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type FaultyStore, faultyStore } from "../../src/testing/faulty-store.ts";
import { createWorld, type World } from "../../src/testing/simulation/world.ts";

const START_MS = 1_700_000_000_000;

export interface Scene {
  readonly world: World;
  readonly store: FaultyStore;
  /** The store behind the faults. */
  readonly inner: Store;
  readonly guard: Engine;
  readonly events: GuardEvent[];
  /** The kinds of events so far, in order. */
  kinds(): string[];
  /** Another guard on the same store, over its own network. */
  another(options?: Partial<GuardOptions>): Engine;
  /** Advances virtual time, and runs everything that is due. */
  advance(ms: number): Promise<void>;
  /** Moves only the store's clock. */
  jump(ms: number): void;
  sleep(ms: number): Promise<void>;
  /** Advances time until the promise settles, and returns or throws its result. */
  settle<T>(promise: Promise<T>): Promise<T>;
}

export function createScene(options: Partial<GuardOptions> = {}): Scene {
  const world = createWorld();
  let jumpedMs = START_MS;
  const clock = { now: () => world.now() + jumpedMs };
  const inner = memoryStore({ clock });
  const events: GuardEvent[] = [];
  let tokens = 0;
  let guards = 0;

  function another(
    extra: Partial<GuardOptions> = {},
    store: Store = faultyStore(inner, { timer: world }),
  ): Engine {
    const name = `guard-${guards++}`;
    return createEngine(
      {
        store,
        namespace: "scene",
        purgeEveryMs: 0,
        observer: (event) => events.push(event),
        ...options,
        ...extra,
      },
      { timer: world, random: () => 0.5, newToken: () => `${name}-token-${tokens++}` },
    );
  }

  const store = faultyStore(inner, { timer: world });
  const guard = another({}, store);

  async function advance(ms: number): Promise<void> {
    let isReached = false;
    world.after(ms, () => {
      isReached = true;
    });
    await world.run(() => isReached);
  }

  return {
    world,
    store,
    inner,
    guard,
    events,
    kinds: () => events.map(({ kind }) => kind),
    another,
    advance,
    jump(ms) {
      jumpedMs += ms;
    },
    sleep: (ms) => new Promise((resolve) => void world.after(ms, resolve)),
    async settle(promise) {
      let isSettled = false;
      const done = () => {
        isSettled = true;
      };
      promise.then(done, done);
      await world.run(() => isSettled);
      if (!isSettled) throw new Error("nothing is left to happen, and the promise is still pending");
      return promise;
    },
  };
}

/** A store that counts its calls. Claims are answered by `answer`, which receives the number of the claim. */
export function claimStore(
  inner: Store,
  answer: (count: number, claim: Parameters<Store["claim"]>[0]) => ReturnType<Store["claim"]>,
) {
  const calls = { claim: 0, abandon: 0 };
  const store: Store = {
    ...inner,
    claim: (claim) => answer(++calls.claim, claim),
    abandon(abandon) {
      calls.abandon++;
      return inner.abandon(abandon);
    },
  };
  return { store, calls };
}

/** A virtual timer that counts the timers armed on it. */
export function createCountingTimer() {
  const world = createWorld();
  const noted = { armed: 0 };
  const timer: Timer = {
    now: world.now,
    after(ms, action) {
      let isArmed = true;
      noted.armed++;
      const disarm = () => {
        if (isArmed) noted.armed--;
        isArmed = false;
      };
      const cancel = world.after(ms, () => {
        disarm();
        action();
      });
      return () => {
        disarm();
        cancel();
      };
    },
  };
  async function advanceTo(at: number): Promise<void> {
    let isReached = false;
    world.after(at - world.now(), () => {
      isReached = true;
    });
    await world.run(() => isReached);
  }
  return { world, timer, noted, advanceTo };
}

/** Makes a held claim lapse, and returns its fence. */
export async function lapse(scene: Scene, subject: Subject): Promise<number> {
  const dying = scene.another({ onFailure: "unknown" });
  await dying.run(subject, () => Promise.reject(new Error("no"))).catch(() => {});
  return (await scene.guard.read(subject))?.fence ?? 0;
}
