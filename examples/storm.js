/**
 * The storm: several real processes, one store, and everything that goes wrong between them. Run it with `npm run storm`, or
 * on a store of yours with `npm run storm -- redis://localhost`.
 *
 * The records are in one SQLite file that all processes share, each with a guard of its own (storm/worker.js). What must
 * never happen twice is a charge at the provider (storm/outside.js). It exits with 1 if a promise was broken.
 */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { createGuard } from "nevertwice";
import { diagnose } from "nevertwice/doctor";
import { openStore } from "nevertwice/stores/open";
import { openChannel } from "./storm/channel.js";
import { createLedger, createProvider } from "./storm/outside.js";
import { countStatuses, createReport, elapsed } from "./storm/report.js";

/** @typedef {{ name: string, child: import("node:child_process").ChildProcess, channel: import("./storm/channel.js").Channel }} Worker */

/** The lease of processes that are killed or stopped: how long the others wait before they may take over. */
const SHORT_LEASE_MS = 800;
const CALLERS = 100;
const AMOUNT = 4_200;

const folder = mkdtempSync(join(tmpdir(), "nevertwice-storm-"));
const url = process.argv[2] ?? `sqlite:${encodeURI(join(folder, "storm.db"))}`;
/** Another one for every storm, so that the records of the last are not in its way. */
const namespace = `storm-${process.pid}-${Date.now()}`;
const store = await openStore(url);
const guard = createGuard({ store, namespace });
const provider = createProvider();
const ledger = createLedger();
/**
 * What to do to a worker, by its name, once it has charged a card: the worst moment there is.
 *
 * @type {Map<string, () => void>}
 */
const faults = new Map();
/** @type {Set<import("node:child_process").ChildProcess>} */
const children = new Set();
const { say, act, tell, promise, verdict } = createReport();

// A stopped process does not notice that its parent is gone.
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

say("One store, one payment provider, and processes that are killed and stopped while they charge.");
say(`The store is ${await diagnose(store)}`);
const [ann, ben, cid, dot] = await Promise.all(["ann", "ben", "cid", "dot"].map(startWorker));
if (!ann || !ben || !cid || !dot) throw new Error("a worker is missing");
say(`The processes: ${[ann, ben, cid, dot].map(({ name, child }) => `${name} ${child.pid}`).join(", ")}.`);

await everybodyAtOnce([ann, ben, cid, dot]);
await killedInMidWork(ann, ben);
// Windows has no way to stop a process and let it go on.
if (process.platform !== "win32") await lateWriter(ben, cid);
await heldForADecision(cid, dot);
process.exit(verdict());

/** @param {readonly Worker[]} workers */
async function everybodyAtOnce(workers) {
  act(`Everybody at once: ${workers.length} processes, ${CALLERS} callers in each, one order`);
  const since = performance.now();
  const results = (await Promise.all(workers.map((worker) => charge(worker, "order-1", CALLERS)))).flat();
  const receipts = new Set(results.map(({ value }) => value?.receipt));
  tell(`${countStatuses(results)} in ${elapsed(since)}`);
  tellProvider("order-1");
  promise("the charge ran once", results.filter(({ status }) => status === "ran").length === 1);
  promise("the customer was charged once", provider.chargesOf("order-1").length === 1);
  promise(
    `all ${results.length} callers hold the same receipt`,
    receipts.size === 1 && !receipts.has(undefined),
  );
}

/**
 * @param {Worker} victim
 * @param {Worker} heir
 */
async function killedInMidWork(victim, heir) {
  act("Killed in mid-work: the card is charged, and nobody is left to say so");
  void strike(victim, "SIGKILL");
  const lost = await charge(victim, "order-2", 1, { leaseMs: SHORT_LEASE_MS }).catch(
    (error) => error.message,
  );
  tell(`${victim.name} charged the card and was killed; its caller hears: ${lost}`);
  const since = performance.now();
  const [taken] = await charge(heir, "order-2", 1);
  tell(`${heir.name} waited for the lease to end and took over: ${taken?.status} after ${elapsed(since)}`);
  tellLedger("order-2");
  tellProvider("order-2");

  const [first, second] = ledger.entriesOf("order-2");
  promise("it was taken over as attempt 2", taken?.status === "ran" && taken.value?.number === 2);
  promise("with a higher fence", first !== undefined && second !== undefined && second.fence > first.fence);
  promise("the customer was charged once", provider.chargesOf("order-2").length === 1);
}

/**
 * @param {Worker} sleeper
 * @param {Worker} heir
 */
async function lateWriter(sleeper, heir) {
  act("The late writer: stopped past its lease, it goes on as if nothing had happened");
  const stopped = strike(sleeper, "SIGSTOP");
  const late = charge(sleeper, "order-3", 1, { leaseMs: SHORT_LEASE_MS });
  await Promise.race([stopped, late]);
  tell(`${sleeper.name} was stopped in mid-work`);
  const [taken] = await charge(heir, "order-3", 1);
  const kept = await guard.read({ operation: "charge", key: "order-3" });
  tell(`${heir.name} took over and completed: attempt ${taken?.value?.number}`);
  sleeper.child.kill("SIGCONT");
  const [told] = await late;
  const after = await guard.read({ operation: "charge", key: "order-3" });
  tell(`${sleeper.name} went on; its caller hears: ${told?.status}, charged by ${told?.value?.by}`);
  tellLedger("order-3");
  tellProvider("order-3");

  const written = ledger.entriesOf("order-3").at(-1);
  promise(
    "the ledger refused the late writer by its fence",
    written?.by === sleeper.name && written.isRefused,
  );
  promise("the stored outcome is as it was", kept?.state === "completed" && isDeepStrictEqual(kept, after));
  promise("both callers were told the same", isDeepStrictEqual(told?.value, taken?.value));
  promise("the customer was charged once", provider.chargesOf("order-3").length === 1);
}

/**
 * @param {Worker} victim
 * @param {Worker} other
 */
async function heldForADecision(victim, other) {
  act('Held: where a second try is out of the question, onLapsed: "hold" asks first');
  /** @type {import("nevertwice").PolicyOptions} */
  const hold = { onLapsed: "hold" };
  void strike(victim, "SIGKILL");
  const lost = await charge(victim, "order-4", 1, { ...hold, leaseMs: SHORT_LEASE_MS }).catch(
    (error) => error.message,
  );
  tell(`${victim.name} was killed in mid-work; its caller hears: ${lost}`);
  const refused = await charge(other, "order-4", 20, hold);
  tell(`${other.name}'s 20 callers: ${countStatuses(refused)}`);
  promise(
    "nobody ran it again",
    refused.every(({ status }) => status === "unknown"),
  );

  const { records } = await guard.listUnknown();
  const [lapsed] = records;
  tell(
    `listUnknown: ${records.map(({ operation, key, number }) => `${operation} ${key}, attempt ${number}`)}`,
  );
  promise("the operator is shown it", records.length === 1 && lapsed?.key === "order-4");

  const [found] = provider.chargesOf("order-4");
  const subject = { operation: "charge", key: "order-4", fence: lapsed?.fence ?? 0 };
  const value = { receipt: found?.receipt, by: "the operator", number: lapsed?.number };
  const isDecided = await guard.resolve(subject, { status: "done", value });
  tellProvider("order-4");
  tell(`the operator found ${found?.receipt} there, and resolved it as done`);
  promise("the decision stood", isDecided);
  promise("a second decision came too late", !(await guard.resolve(subject, { status: "not-done" })));

  const answered = await charge(other, "order-4", 20, hold);
  tell(`${other.name}'s 20 callers: ${countStatuses(answered)}`);
  promise(
    "callers get the receipt that was found",
    answered.every((result) => result.status === "replayed" && isDeepStrictEqual(result.value, value)),
  );
  promise("the customer was charged once", provider.chargesOf("order-4").length === 1);
}

/**
 * @param {string} name
 * @returns {Promise<Worker>}
 */
async function startWorker(name) {
  const file = fileURLToPath(new URL("storm/worker.js", import.meta.url));
  const child = fork(file, [name, url, namespace]);
  children.add(child);
  child.once("exit", () => children.delete(child));
  const channel = openChannel(child);
  channel.answer("ledger.post", (entry) => ledger.post(entry));
  channel.answer("provider.charge", (request) => {
    const receipt = provider.charge(request);
    faults.get(name)?.();
    return receipt;
  });
  await channel.ask("ready");
  return { name, child, channel };
}

/**
 * Sends the worker a signal when it next has charged a card; resolves when that has happened.
 *
 * @param {Worker} worker
 * @param {NodeJS.Signals} signal
 * @returns {Promise<void>}
 */
function strike({ name, child }, signal) {
  return new Promise((resolve) => {
    faults.set(name, () => {
      faults.delete(name);
      child.kill(signal);
      resolve();
    });
  });
}

/**
 * Lets a worker's callers ask for one order, all at once, and answers what each was told.
 *
 * @param {Worker} worker
 * @param {string} id
 * @param {number} callers
 * @param {import("nevertwice").PolicyOptions} [policy]
 * @returns {Promise<{ status: string, value?: { receipt: string, by: string, number: number } }[]>}
 */
function charge({ channel }, id, callers, policy = {}) {
  return channel.ask("charge", { order: { id, amount: AMOUNT }, callers, policy });
}

/** @param {string} order */
function tellLedger(order) {
  for (const { fence, number, by, text, isRefused } of ledger.entriesOf(order))
    tell(`ledger: fence ${fence}  attempt ${number}  ${by}: ${text}${isRefused ? "  REFUSED" : ""}`);
}

/** @param {string} order */
function tellProvider(order) {
  tell(`provider: asked ${provider.countRequests()}, charged ${provider.chargesOf(order).length}`);
}
