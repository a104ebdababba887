/** What a guard promises for functions, in real time. Each check gets a guard of its own on a memory store. */
import { idempotent, isNevertwiceError } from "nevertwice";
import { rejects, same } from "./same.js";

const DUPLICATES = 1_000;

/** @type {readonly (readonly [name: string, smoke: (guard: import("nevertwice").Guard) => Promise<void>])[]} */
export const FUNCTIONS = [
  ["runs once, then replays", runsOnceThenReplays],
  ["wraps a function", wrapsAFunction],
  ["decorates a method", decoratesAMethod],
  ["refuses another meaning", refusesAnotherMeaning],
  ["remembers an error", remembersAnError],
  ["frees a key after a failure", freesAKeyAfterAFailure],
  [`runs once for ${DUPLICATES} duplicates at a time`, runsOnceForManyDuplicates],
  ["loses a lease that is not renewed", losesALease],
  ["lets its caller go", letsItsCallerGo],
  ["purges when it is asked to", purgesOnDemand],
  ["hands its calls to waitUntil", handsCallsToWaitUntil],
];

/** @param {import("nevertwice").Guard} guard */
async function runsOnceThenReplays(guard) {
  const request = { operation: "charge", scope: "shop", key: "order-1", fingerprint: { amount: 5 } };
  const receipt = { id: "r-1", at: new Date(0), bytes: new Uint8Array([1, 2]), big: 12n };
  const first = await guard.tryRun(request, async () => receipt);
  same(first, { status: "ran", value: receipt, recorded: true });
  same(await guard.tryRun(request, fail), { status: "replayed", value: receipt });
}

/** @returns {never} */
function fail() {
  throw new Error("ran again");
}

/** @param {import("nevertwice").Guard} guard */
async function wrapsAFunction(guard) {
  let runs = 0;
  const work = (/** @type {{ id: string }} */ order) => `${order.id} ${++runs}`;
  const charge = guard.wrap(work, { operation: "charge", keyFrom: ["0.id"] });
  same(await charge({ id: "order-1" }), "order-1 1");
  same(await charge({ id: "order-1" }), "order-1 1");
  same(await charge({ id: "order-2" }), "order-2 2");
}

/** @param {import("nevertwice").Guard} guard */
async function decoratesAMethod(guard) {
  let runs = 0;
  const method = async (/** @type {string} */ id) => `${id} ${++runs}`;
  const decorate = idempotent(guard, { operation: "charge", keyFrom: [0] });
  // It is called as a compiler does, since no runtime here supports decorators yet.
  const { value } = decorate({}, "charge", { value: method });
  same(await value?.("order-1"), "order-1 1");
  same(await value?.("order-1"), "order-1 1");
}

/** @param {import("nevertwice").Guard} guard */
async function refusesAnotherMeaning(guard) {
  await guard.run({ operation: "charge", key: "order-1", fingerprint: { amount: 5 } }, () => "charged");
  await rejects(
    guard.run({ operation: "charge", key: "order-1", fingerprint: { amount: 6 } }, () => "charged"),
    (error) => isNevertwiceError(error, "conflict"),
  );
}

/** @param {import("nevertwice").Guard} guard */
async function remembersAnError(guard) {
  const request = { operation: "charge", key: "order-1", onFailure: /** @type {const} */ ("remember") };
  const declined = Object.assign(new Error("card declined"), { code: "declined" });
  let runs = 0;
  for (let calls = 0; calls < 2; calls++) {
    const work = async () => {
      runs++;
      throw declined;
    };
    await rejects(guard.run(request, work), (error) => {
      const { message, code } = /** @type {Error & { code?: string }} */ (error);
      return message === "card declined" && code === "declined";
    });
  }
  same(runs, 1, "the number of runs");
}

/** @param {import("nevertwice").Guard} guard */
async function freesAKeyAfterAFailure(guard) {
  const request = { operation: "charge", key: "order-1" };
  const failing = guard.run(request, () => Promise.reject(new Error("no network")));
  await rejects(failing, (error) => String(error).includes("no network"));
  same(await guard.run(request, ({ number }) => number), 2);
}

/** @param {import("nevertwice").Guard} guard */
async function runsOnceForManyDuplicates(guard) {
  let runs = 0;
  const work = async () => {
    await pause(20);
    return ++runs;
  };
  const call = () => guard.run({ operation: "charge", key: "order-1" }, work);
  const values = await Promise.all(Array.from({ length: DUPLICATES }, call));
  same([...new Set(values)], [1]);
  same(runs, 1, "the number of runs");
}

/** @param {import("nevertwice").Guard} guard */
async function losesALease(guard) {
  /** @type {import("nevertwice").Work<never>} */
  const work = ({ signal }) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(new Error(String(signal.reason)))),
    );
  await rejects(guard.run({ operation: "hang", key: "1", maxRunMs: 30 }, work), (error) =>
    String(error).includes("ran-too-long"),
  );
}

/** @param {import("nevertwice").Guard} guard */
async function letsItsCallerGo(guard) {
  const caller = new AbortController();
  const running = guard.run({ operation: "slow", key: "1", signal: caller.signal }, () => pause(30));
  caller.abort(new Error("gone"));
  await rejects(running, (error) => String(error).includes("gone"));
  await pause(60);
}

/** @param {import("nevertwice").Guard} guard */
async function purgesOnDemand(guard) {
  await guard.run({ operation: "charge", key: "order-1", retentionMs: 1 }, () => "charged");
  await guard.run({ operation: "charge", key: "order-2" }, () => "charged");
  await pause(20);
  same(await guard.purge(), 1, "the number of purged records");
}

/** @param {import("nevertwice").Guard} guard */
async function handsCallsToWaitUntil(guard) {
  /** @type {Promise<unknown>[]} */
  const carried = [];
  const waitUntil = (/** @type {Promise<unknown>} */ work) => void carried.push(work);
  await guard.run({ operation: "charge", key: "order-1", waitUntil }, () => "charged");
  same(carried.length, 1, "the number of promises that waitUntil got");
  await Promise.all(carried);
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
