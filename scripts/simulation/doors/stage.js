/** The parts that the schedules of all doors have: processes that share a store, what goes wrong, and what was broken. */
import { createLedger } from "./ledger.js";
import { createLink, drawRates, drawStrikes } from "./random-faults.js";

/** @typedef {import("./library.js").Library} Library */
/** @typedef {import("./virtual-time.js").Random} Random */
/** @typedef {import("./virtual-time.js").World} World */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */
/** @typedef {import("./random-faults.js").Strike} Strike */
/** @typedef {import("../../../packages/nevertwice/src/core/store.ts").Store} Store */

/** @typedef {{ readonly invariant: string, readonly what: string }} Violation */

/** A place for a process: after a crash another one starts there. @typedef {{ process: SimulatedProcess }} Slot */

/**
 * @typedef {object} Play one door in one schedule
 * @property {(process: SimulatedProcess) => unknown} open starts what runs in a process; a promise is waited for
 * @property {() => void} plan plans what happens outside
 * @property {(strike: Strike) => void} [purge] replaces the purge of the shared store
 * @property {() => void} [heal] called when the faults end
 * @property {() => boolean} [isDone] whether nothing more can happen, if that can be told
 * @property {() => void} check judges what is left when everything has ended
 * @property {object} scenario what was drawn, for the report
 */

/** @typedef {ReturnType<typeof createStage>} Stage */
/** @typedef {(stage: Stage) => Play} Door */

/** How long the leases of a schedule are, when its faults end, and when it must have ended. */
/** @typedef {{ readonly leaseMs: number, readonly healMs: number, readonly endMs: number }} Times */

const PURGED_AT_ONCE = 100;

/**
 * @param {{ readonly library: Library, readonly random: Random, readonly world: World, readonly times: Times, readonly story: string[] | undefined }} parts
 */
export function createStage({ library, random, world, times, story }) {
  const store = library.memoryStore({ clock: { now: world.wall } });
  const ledger = createLedger(store, world);
  const rates = drawRates(random);
  const delayMs = random.pick([5, 40, 150]);
  let ratesNow = rates;
  /** @type {Slot[]} */
  const slots = [];
  /** @type {Record<string, number>} */
  const counts = {};
  /** @type {Violation | undefined} */
  let violation;
  /** @type {Play | undefined} */
  let play;
  let generations = 0;
  let isHealed = false;

  const count = (/** @type {string} */ what) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const tell = (/** @type {() => string} */ text) => story?.push(`${world.now()}: ${text()}`);
  const fail = (/** @type {string} */ invariant, /** @type {string} */ what) => {
    tell(() => `BROKEN ${invariant}: ${what}`);
    violation ??= { invariant, what };
  };
  const network = {
    world,
    random,
    rates: () => ratesNow,
    delayMs: () => (isHealed ? 2 : delayMs),
  };

  /** @param {Slot} slot */
  function startProcess(slot) {
    const name = `${slots.indexOf(slot)}.${generations++}`;
    /** @type {SimulatedProcess} */
    const process = {
      name,
      isDead: false,
      pausedUntil: 0,
      eventsLeft: Number.POSITIVE_INFINITY,
      app: undefined,
    };
    slot.process = process;
    tell(() => `process ${name} starts`);
    const open = () => {
      process.app = Promise.resolve(play?.open(process));
    };
    world.after(0, open, process);
  }

  function endOutage() {
    ratesNow = isHealed ? {} : rates;
  }

  /** @param {Strike} strike */
  function strikeNow(strike) {
    const { kind, slot, amount } = strike;
    const struck = /** @type {Slot} */ (slots[slot]);
    tell(() => `fault: ${kind} ${slot} ${amount}`);
    count(`fault ${kind}`);
    switch (kind) {
      case "crash": {
        struck.process.eventsLeft = amount;
        const restart = () => {
          struck.process.isDead = true;
          startProcess(struck);
        };
        world.after(random.between(5, 200), restart, null);
        return;
      }
      case "pause":
        struck.process.pausedUntil = Math.max(struck.process.pausedUntil, world.now() + amount);
        return;
      case "jump":
        ledger.jumping();
        world.jump(amount);
        return;
      case "outage":
        ratesNow = strike.rates;
        world.after(amount, endOutage, null);
        return;
      case "purge":
        if (play?.purge) play.purge(strike);
        else void store.purge(PURGED_AT_ONCE);
    }
  }

  function heal() {
    tell(() => "the faults end");
    isHealed = true;
    ratesNow = {};
    for (const slot of slots) {
      slot.process.eventsLeft = Number.POSITIVE_INFINITY;
      if (slot.process.isDead) startProcess(slot);
    }
    play?.heal?.();
  }

  return {
    library,
    random,
    world,
    times,
    ledger,
    slots,
    counts,
    count,
    tell,
    fail,
    isHealed: () => isHealed,
    violation: () => violation,
    network,
    /** The shared store as this process reaches it. @param {SimulatedProcess} process @returns {Store} */
    storeFor(process) {
      const link = createLink(network, process);
      const { keepStep, watch, ...applied } = ledger.storeFor(process.name);
      /** @type {any} */
      const plain = applied;
      const linked = Object.fromEntries(
        ["claim", "complete", "abandon", "renew", "read", "purge"].map((method) => [
          method,
          (/** @type {any[]} */ ...values) => link(() => plain[method](...values)),
        ]),
      );
      return {
        ...applied,
        ...linked,
        ...(keepStep && { keepStep: (request) => link(() => keepStep(request)) }),
        ...(watch && {
          watch: ({ id, wake }) =>
            link(() => watch.call(store, { id, wake: () => void world.after(1, wake, process) })),
        }),
      };
    },
    /**
     * Sends a request from outside to the process of a slot. Without an answer it was lost in a crash.
     * @param {Slot} slot
     * @param {(app: any, process: SimulatedProcess) => Promise<any>} handle
     * @param {(answer: any) => void} onAnswer what was returned
     * @param {(error: unknown) => void} onError what was thrown
     */
    send({ process }, handle, onAnswer, onError) {
      const back = (/** @type {(value: any) => void} */ receive) => (/** @type {unknown} */ value) =>
        void world.after(random.between(0, 3), () => receive(value), null);
      const arrive = async () => handle(await process.app, process);
      world.after(random.between(0, 3), () => void arrive().then(back(onAnswer), back(onError)), process);
    },
    /** @returns {Slot} */
    pickSlot: () => random.pick(slots),
    /** @param {number} ms @returns {Promise<void>} */
    sleep: (ms) => new Promise((resolve) => void world.after(ms, resolve)),
    /** @param {(stage: any) => Play} door @returns {Promise<object>} what was drawn */
    async run(door) {
      const count = random.between(1, 3);
      play = door(this);
      for (let index = 0; index < count; index++) {
        const slot = /** @type {Slot} */ ({});
        slots.push(slot);
        startProcess(slot);
      }
      play.plan();
      const { healMs, endMs, leaseMs } = times;
      const strikes = drawStrikes(random, { slots: count, withinMs: healMs * 0.6, leaseMs });
      for (const strike of strikes) world.after(strike.at, () => strikeNow(strike), null);
      world.after(healMs, heal, null);
      await world.run(endMs, () => violation !== undefined || (isHealed && play?.isDone?.() === true));
      if (violation === undefined) play.check();
      return { processes: count, rates, delayMs, strikes, ...play.scenario };
    },
  };
}
