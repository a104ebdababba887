/** What goes wrong in a schedule: the network of each process to its store, and what strikes from outside. */

/** @typedef {import("./virtual-time.js").Random} Random */
/** @typedef {import("./virtual-time.js").World} World */
/** @typedef {import("./virtual-time.js").SimulatedProcess} SimulatedProcess */

/** `refuse`: nothing is applied. `hang`: never applied. `lose`: applied, never answered. `break`: applied, then fails. */
/** @typedef {"refuse" | "hang" | "lose" | "break"} NetworkFault */
/** @typedef {{ readonly [Name in NetworkFault]?: number }} NetworkRates */

/**
 * @typedef {object} Strike
 * @property {"crash" | "pause" | "jump" | "outage" | "purge"} kind
 * @property {number} at
 * @property {number} slot
 * @property {number} amount events before the crash, or milliseconds
 * @property {NetworkRates} rates
 */

const OUTAGES = [{ refuse: 1 }, { hang: 1 }, { lose: 1 }];
/** @type {readonly NetworkFault[]} */
const FAULTS = ["refuse", "hang", "lose", "break"];

/** @param {Random} random @returns {NetworkRates} */
export function drawRates(random) {
  if (random.chance(0.35)) return {};
  const most = random.pick([0.05, 0.15, 0.3]);
  const rate = () => (random.chance(0.5) ? 0 : random.next() * most);
  return { refuse: rate(), hang: rate(), lose: rate(), break: rate() };
}

/**
 * @param {Random} random
 * @param {{ readonly slots: number, readonly withinMs: number, readonly leaseMs: number }} size
 * @returns {Strike[]}
 */
export function drawStrikes(random, { slots, withinMs, leaseMs }) {
  return Array.from({ length: random.pick([0, 1, 1, 2, 3, 4]) }, () => {
    const kind = random.pick(
      /** @type {const} */ (["crash", "crash", "crash", "pause", "pause", "jump", "outage", "purge"]),
    );
    const strike = { kind, at: random.between(0, withinMs), slot: random.between(0, slots - 1), rates: {} };
    if (kind === "outage")
      return { ...strike, amount: random.between(20, leaseMs * 3), rates: random.pick(OUTAGES) };
    return { ...strike, amount: drawAmount(random, kind, leaseMs) };
  });
}

/** @param {Random} random @param {Strike["kind"]} kind @param {number} leaseMs */
function drawAmount(random, kind, leaseMs) {
  switch (kind) {
    case "crash":
      return random.between(0, 12);
    case "pause":
      return random.between(leaseMs / 2, leaseMs * 4);
    case "jump":
      return Math.round(leaseMs * random.pick([-40, -10, -2, -0.5, 0.5, 1.1, 5, 30]));
    default:
      return 0;
  }
}

/**
 * A call over the network: sent by a process, applied outside of all processes, and answered to the process if it still lives.
 * @param {{ readonly world: World, readonly random: Random, readonly rates: () => NetworkRates, readonly delayMs: () => number }} network
 * @param {SimulatedProcess} process
 */
export function createLink({ world, random, rates, delayMs }, process) {
  function drawFault() {
    let draw = random.next();
    const now = rates();
    for (const fault of FAULTS) {
      draw -= now[fault] ?? 0;
      if (draw < 0) return fault;
    }
    return undefined;
  }
  const lag = () => (random.chance(0.2) ? random.between(1, delayMs()) : random.between(0, 2));

  /**
   * @template T
   * @param {() => Promise<T>} apply
   * @returns {Promise<T>}
   */
  return (apply) =>
    new Promise((resolve, reject) => {
      const fault = drawFault();
      if (fault === "hang") return;
      const broken = (/** @type {string} */ how) => () => reject(new Error(`the network ${how}`));
      if (fault === "refuse") {
        world.after(lag(), broken("refused the call"), process);
        return;
      }
      const arrived = async () => {
        try {
          const answer = await apply();
          if (fault === "lose") return;
          world.after(lag(), fault === "break" ? broken("lost the reply") : () => resolve(answer), process);
        } catch (error) {
          world.after(lag(), () => reject(error), process);
        }
      };
      world.after(lag(), () => void arrived(), null);
    });
}
