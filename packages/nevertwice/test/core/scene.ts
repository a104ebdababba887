/** A guard on a memory store behind a faulty network, all on virtual time: nothing here sleeps. */
import { createEngine, type Engine, type GuardOptions } from "../../src/core/engine.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
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
  /** Another guard on the same store, through a network of its own. */
  another(options?: Partial<GuardOptions>): Engine;
  /** Lets this much virtual time pass, with everything that happens in it. */
  advance(ms: number): Promise<void>;
  /** Moves the store's clock alone. */
  jump(ms: number): void;
  sleep(ms: number): Promise<void>;
  /** Lets time pass until the promise settles, and answers or throws as it does. */
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
