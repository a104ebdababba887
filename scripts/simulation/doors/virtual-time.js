/**
 * Virtual time for whole applications: the timers, clocks and random numbers of the thread belong to the schedule that runs.
 * Every event belongs to one simulated process. While a process is paused its events wait; after a crash they never happen.
 * So a process can be cut off at each place where its code waits.
 */

/** @typedef {import("../../../packages/nevertwice/src/testing/random.ts").Random} Random */

/**
 * @typedef {object} SimulatedProcess
 * @property {string} name
 * @property {boolean} isDead
 * @property {number} pausedUntil
 * @property {number} eventsLeft it crashes after so many more events
 * @property {any} app what runs in it
 */

/**
 * @typedef {object} PlannedEvent
 * @property {number} at
 * @property {number} order
 * @property {() => void} action
 * @property {SimulatedProcess | null} owner null: outside of all processes, such as clients, brokers and networks
 * @property {boolean} isCancelled
 */

/** @typedef {ReturnType<typeof createWorld>} World */

const CLOCK_START_MS = 1_700_000_000_000;
const realImmediate = globalThis.setImmediate;
/** The schedule that runs in this thread. @type {World | undefined} */
let running;
/** @type {() => number} */
let nextRandom = Math.random;

/** Every promise that can settle has settled when this resolves. */
const settled = () => new Promise((resolve) => void realImmediate(resolve));

function world() {
  if (running === undefined) throw new Error("no schedule runs");
  return running;
}

/** Call it before the library is loaded, which keeps some of these functions. */
export function installVirtualTime() {
  /** @type {any} */
  const scope = globalThis;
  scope.setTimeout = (/** @type {() => void} */ action, ms = 0) => timeout(world().after(ms, action));
  scope.setInterval = (/** @type {() => void} */ action, ms = 1) => {
    let cancel = () => {};
    const again = () => {
      cancel = world().after(ms, again);
      action();
    };
    cancel = world().after(ms, again);
    return timeout(() => cancel());
  };
  scope.setImmediate = (/** @type {() => void} */ action) => world().atOnce(action);
  scope.clearTimeout = (/** @type {{ cancel(): void } | undefined} */ handle) => handle?.cancel();
  scope.clearInterval = scope.clearTimeout;
  Object.defineProperty(performance, "now", { value: () => world().now() });
  Date.now = () => world().wall();
  Math.random = () => nextRandom();
}

/** @param {() => void} cancel */
function timeout(cancel) {
  return { cancel, unref() {}, ref() {} };
}

/** @param {Random} random for `Math.random` */
export function createWorld(random) {
  /** The next event is the last one. @type {PlannedEvent[]} */
  const queue = [];
  /** @type {(() => void)[]} */
  let immediates = [];
  /** @type {SimulatedProcess | null} */
  let current = null;
  let time = 0;
  let orders = 0;
  let events = 0;
  let wallStartsAt = CLOCK_START_MS;

  /** @param {PlannedEvent} event */
  function plan(event) {
    let low = 0;
    let high = queue.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = /** @type {PlannedEvent} */ (queue[middle]);
      if (other.at > event.at || (other.at === event.at && other.order > event.order)) low = middle + 1;
      else high = middle;
    }
    queue.splice(low, 0, event);
  }

  /**
   * Runs the action after `ms`, as an event of `owner`; default: of the process whose event runs now.
   * @param {number} ms
   * @param {() => void} action
   * @param {SimulatedProcess | null} [owner]
   * @returns {() => void} cancels it
   */
  function after(ms, action, owner = current) {
    const event = { at: time + Math.max(0, ms), order: orders++, action, owner, isCancelled: false };
    plan(event);
    return () => {
      event.isCancelled = true;
    };
  }

  /** @param {PlannedEvent} event */
  function isLost(event) {
    const { owner } = event;
    if (event.isCancelled || owner?.isDead) return true;
    if (owner === null) return false;
    if (owner.pausedUntil > time) {
      event.at = owner.pausedUntil;
      event.order = orders++;
      plan(event);
      return true;
    }
    if (owner.eventsLeft-- > 0) return false;
    owner.isDead = true;
    return true;
  }

  return {
    now: () => time,
    /** The clock on the wall, which jumps. */
    wall: () => wallStartsAt + time,
    /** @param {number} byMs */
    jump(byMs) {
      wallStartsAt += byMs;
    },
    /** How far the clock on the wall has gone back by all its jumps. */
    behindMs: () => CLOCK_START_MS - wallStartsAt,
    after,
    /** After this event, before any other. @param {() => void} action */
    atOnce: (action) => void immediates.push(action),
    events: () => events,
    /**
     * Runs events until none is left, the time has come, or `isOver` says so.
     * @param {number} untilMs
     * @param {() => boolean} isOver
     */
    async run(untilMs, isOver) {
      running = this;
      nextRandom = random.next;
      for (
        let next = queue.at(-1);
        next !== undefined && next.at <= untilMs && !isOver();
        next = queue.at(-1)
      ) {
        queue.pop();
        time = next.at;
        if (isLost(next)) continue;
        current = next.owner;
        next.action();
        await settled();
        while (immediates.length > 0) {
          const now = immediates;
          immediates = [];
          for (const action of now) action();
          await settled();
        }
        current = null;
        events++;
      }
    },
  };
}
