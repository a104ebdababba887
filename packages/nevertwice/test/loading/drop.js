/** Makes many of a thing, uses each once, drops it without closing it, and prints how many were collected. */
const BUILD = new URL("../../dist/", import.meta.url);
/** @param {string} path */
const load = (path) => import(new URL(path, BUILD).href);
const MANY = 200;

const { createGuard } = await load("index.js");
const { memoryStore } = await load("stores/memory.js");
const { createClaims } = await load("claims/index.js");
const { createReservations } = await load("reservations/index.js");
const { memoryReservations } = await load("reservations/memory.js");
const { consumer } = await load("events/index.js");

const store = memoryStore();
/** One signal for all callers, as a server has: nothing may stay registered on it. */
const { signal } = new AbortController();
/** @param {{ id: string }} message */
const idOf = ({ id }) => id;
const subject = { operation: "charge", key: "k" };

/** Each answers something that only what it made holds: what a timer keeps alive is not the outermost object. */
/** @type {Record<string, () => Promise<object>>} */
const makers = {
  async guard() {
    const observer = () => {};
    await createGuard({ store, observer }).run({ ...subject, signal }, () => 1);
    return observer;
  },
  async claims() {
    const observer = () => {};
    await createClaims({ store, observer }).claim(subject);
    return observer;
  },
  async reservations() {
    const holds = memoryReservations();
    await createReservations({ store: holds, windowMs: 60_000, sweepEveryMs: 1_000 }).get("hold");
    return holds;
  },
  async consumer() {
    const observer = () => {};
    const guard = createGuard({ store, observer });
    await consumer(guard, { name: "c", key: idOf, work: () => 1 }).handle({ id: "1" });
    return observer;
  },
};

let collected = 0;
const registry = new FinalizationRegistry(() => collected++);
/** @param {() => Promise<object>} make */
async function makeOne(make) {
  registry.register(await make(), undefined);
}
const make = makers[process.argv[2] ?? ""];
if (make === undefined) throw new Error("say what to make");
for (let made = 0; made < MANY; made++) await makeOne(make);
for (let tries = 0; tries < 50 && collected < MANY; tries++) {
  await new Promise((resolve) => setTimeout(resolve, 10));
  globalThis.gc?.();
}
console.log(collected);
