/**
 * One of several processes that make calls at a steady rate for a long time. Each effect and each answer goes to a file outside
 * of the store, before the process does anything else, so that it remains after a kill. So do its heap and open descriptors.
 */
import { openSync, readdirSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createGuard } from "../../../dist/index.js";
import { open } from "./open.js";

/**
 * @typedef {object} Options
 * @property {string} url of the store
 * @property {string} notes the file
 * @property {number} index of the process, from 0
 * @property {number} processes
 * @property {number} perSecond calls of this process
 * @property {number} duplicates the share of calls that repeat a key
 * @property {number} retentionMs
 * @property {number} purgeEveryMs
 * @property {number} sampleMs
 */

/** @type {Options} */
const options = JSON.parse(process.argv[2] ?? "{}");
const { url, notes, index, processes, perSecond, duplicates, retentionMs, purgeEveryMs, sampleMs } = options;
/** A key is repeated within this share of its retention. Calls of two processes at the same moment are rare: they wait. */
const REPEATED_WITHIN = 0.5;
const AT_ONCE = 0.02;
/** While the store is down calls pile up. Beyond so many, a process leaves calls out, as a server refuses requests. */
const MAX_IN_FLIGHT = 100;
const FILLING = "r".repeat(200);

setFlagsFromString("--expose-gc");
/** @type {() => void} */
const collectGarbage = runInNewContext("gc");
const file = openSync(notes, "a");
const store = await open(url, { migrate: false });
const guard = createGuard({ store, namespace: "endurance", retentionMs, purgeEveryMs });
/** @type {Set<Promise<void>>} */
const inFlight = new Set();
let isOver = false;
let effects = 0;

const now = () => Number(process.hrtime.bigint() / 1_000n);

/** @param {import("../endurance-judge.ts").EnduranceNote} line */
function note(...line) {
  writeSync(file, `${JSON.stringify(line)}\n`);
}

/** @param {string} key */
async function call(key) {
  const sentAt = now();
  const answer = await guard.tryRun({ operation: "charge", key }, () => {
    const value = `${key} of ${process.pid}, ${++effects}`;
    note("effect", key, value, now());
    return { value, filling: FILLING };
  });
  const { value = "" } = "value" in answer ? answer.value : {};
  const status = answer.status === "ran" && !answer.recorded ? "ran, not recorded" : answer.status;
  note("answer", key, status, value, sentAt, (now() - sentAt) / 1_000);
}

/**
 * Every process names its keys by their number, and makes that many calls a second: so each knows which keys of the others are
 * how old.
 * @param {number} number of the call
 */
function nextKey(number) {
  if (Math.random() >= duplicates) return `${index}-${number}`;
  const other = Math.floor(Math.random() * processes);
  const isAtOnce = Math.random() < AT_ONCE;
  const oldest = Math.min(number, (REPEATED_WITHIN * retentionMs * perSecond) / 1_000);
  const age = isAtOnce ? 0 : perSecond / 2 + Math.random() * oldest;
  return `${other}-${Math.max(0, Math.floor(number - age))}`;
}

/** @param {number} startAt */
async function makeCalls(startAt) {
  const passedMs = () => (now() - startAt) / 1_000;
  // A process that replaces a killed one goes on where that one would be.
  for (let number = Math.max(0, Math.ceil((passedMs() * perSecond) / 1_000)); !isOver; number++) {
    const dueMs = ((number + index / processes) * 1_000) / perSecond - passedMs();
    if (dueMs > 0) await sleep(dueMs);
    if (inFlight.size >= MAX_IN_FLIGHT) continue;
    const calling = call(nextKey(number)).finally(() => inFlight.delete(calling));
    inFlight.add(calling);
  }
  await Promise.all(inFlight);
}

async function takeSamples() {
  while (!isOver) {
    await sleep(sampleMs);
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    note("sample", now(), heapUsed + external, readdirSync("/proc/self/fd").length);
  }
}

// The first call connects and compiles; it is not part of the trial.
while ((await guard.tryRun({ operation: "warm up", key: String(process.pid) }, () => "")).status !== "ran");
const startAt = await new Promise((begin) => {
  process.on("message", (message) => {
    if (message === "end") isOver = true;
    else begin(Number(message));
  });
  process.send?.({ kind: "ready" });
});
await Promise.all([makeCalls(startAt), takeSamples()]);
await guard.close();
await store.close();
process.disconnect();
