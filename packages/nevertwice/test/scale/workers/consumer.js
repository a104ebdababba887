/**
 * One of several processes that consume the same messages and are killed at any time. The work of a message is an entry
 * in the ledger. The process first writes what its guard and its consumer report to a file, which remains after a kill.
 */
import { randomUUID } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { consumer } from "../../../dist/events/index.js";
import { createGuard } from "../../../dist/index.js";
import { openLedger } from "./enter.js";
import { open } from "./open.js";

/** @typedef {import("../../../src/core/attempt.ts").Attempt} Attempt */
/** @typedef {import("../../../src/events/index.ts").Delivery} Delivery */
/** @typedef {import("../../../src/events/index.ts").Handling} Handling */

/**
 * @typedef {object} Options
 * @property {"rabbitmq" | "nats"} broker
 * @property {object} source where the messages are; read by the file of workers/ that is named after the broker
 * @property {string} url of the store
 * @property {string} namespace
 * @property {string} name of the consumer
 * @property {number} ledger its port
 * @property {string} notes the file
 * @property {number} lanes how many messages the process works on at once
 * @property {number} workMs how long the work of one message takes at most
 * @property {object} policies of the consumer
 * @property {Fault} [fault] a deliberate bug that the referee must report
 */

/** @typedef {"acknowledges-first" | "has-no-guard"} Fault */
/** @typedef {["taken-over", keyHash: string, fence: number] | ["delivery", kind: string, verdict: string]} Note */

/**
 * @template Message
 * @typedef {(message: Message, handling?: Handling) => Promise<Delivery>} Handler
 */

/** @typedef {{ close(): Promise<void> }} Taking what a broker's file answers to `take` */

/** @type {Options} */
const { broker, source, url, namespace, name, ledger, notes, lanes, workMs, policies, fault } = JSON.parse(
  process.argv[2] ?? "{}",
);
const { idOf, take } = await import(`./${broker}.js`);
const store = await open(url, { migrate: false });
const file = openSync(notes, "a");
const enter = await openLedger(ledger);
/** Running messages, messages that wait for a lane, and finished deliveries. */
let running = 0;
let progress = 0;
/** @type {(() => void)[]} */
const waiting = [];
let wasBusy = false;

/** @param {Note} line */
function note(...line) {
  writeSync(file, `${JSON.stringify(line)}\n`);
}

const guard = createGuard({
  store,
  namespace,
  observer(event) {
    if (event.kind === "taken-over") note("taken-over", event.keyHash, event.fence);
  },
});
const guarded = consumer(guard, {
  name,
  key: idOf,
  async work(message, attempt) {
    // One message in seven is given back the first time, before its work has begun.
    if (attempt.number === 1 && Number(idOf(message)) % 7 === 0)
      throw attempt.notDone(new Error("not at first"));
    await work(message, attempt);
  },
  onEvent(event) {
    if (event.kind !== "retrying") note("delivery", event.kind, event.verdict);
    if (event.kind !== "unknown") progress++;
  },
  ...policies,
});

/**
 * @param {unknown} message
 * @param {Pick<Attempt, "deriveKey" | "fence" | "number">} attempt
 */
async function work(message, { deriveKey, fence, number }) {
  await enter({ key: deriveKey("ledger"), message: idOf(message), pid: process.pid, fence, number });
  if (!wasBusy && running === lanes) process.send?.({ kind: "busy" });
  wasBusy ||= running === lanes;
  await sleep(Math.random() * workMs);
}

/**
 * Without a guard every delivery runs the work, each time with another key.
 *
 * @param {unknown} message
 * @returns {Promise<Delivery>}
 */
async function handleUnguarded(message) {
  await work(message, { number: 1, fence: 0, deriveKey: () => randomUUID() });
  progress++;
  return { status: "done", verdict: "acknowledge", value: undefined, recorded: false, tries: 1 };
}

const handleAny = fault === "has-no-guard" ? handleUnguarded : guarded.handle;

/**
 * Limits the number of running messages to `lanes`. A message that only waits for a lane has no unknown outcome when this process is killed.
 *
 * @param {unknown} message
 * @param {Handling} [handling]
 * @returns {Promise<Delivery>}
 */
async function handle(message, handling) {
  if (running === lanes) await new Promise((resolve) => waiting.push(() => resolve(undefined)));
  else running++;
  try {
    return await handleAny(message, handling);
  } finally {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}

/** @type {Taking} */
const taking = await take(source, handle, { lanes, acknowledgesFirst: fault === "acknowledges-first" });
process.on("message", async (message) => {
  if (message === "progress") {
    process.send?.({ kind: "progress", progress });
    return;
  }
  await taking.close();
  await guard.close();
  await store.close();
  process.disconnect();
});
process.send?.({ kind: "ready", pid: process.pid });
