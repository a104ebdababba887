/**
 * One of several processes that contend for the same few keys. It writes each request and each answer to a file before it
 * continues. The file remains after a kill, and the referee reads the files of all processes.
 */
import { randomUUID } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "./open.js";

/**
 * @typedef {object} Options
 * @property {string} url of the store
 * @property {readonly { id: string, key: string }[]} keys
 * @property {number} claims how many claims it makes at least
 * @property {number} lanes how many claims run at once
 * @property {number} leaseMs
 * @property {string} notes the file
 * @property {boolean} isHeld whether to hold a key halfway through until the test sends a message
 * @property {boolean} isLying whether to pretend to own a pending key, which the referee must report
 */

/** @type {Options} */
const { url, keys, claims, lanes, leaseMs, notes, isHeld, isLying } = JSON.parse(process.argv[2] ?? "{}");
const RETENTION_MS = 60_000;
const parts = { namespace: "scale", scope: "", operation: "contend", key: "" };

const store = await open(url, { migrate: false });
const file = openSync(notes, "a");
let asked = 0;
let hasHeld = false;
let isOver = false;
let goOn = () => {};

/** @param {import("../referee.ts").Note} line */
function note(...line) {
  writeSync(file, `${JSON.stringify(line)}\n`);
}

function now() {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** @param {number} most */
function anyBelow(most) {
  return Math.floor(Math.random() * most);
}

/**
 * @param {import("../../../src/core/store.ts").ClaimAnswer} answer
 * @returns {import("../../../src/core/store.ts").ClaimAnswer}
 */
function believed(answer) {
  if (!isLying || answer.status !== "pending") return answer;
  return { status: "new", fence: Date.now() * 1_000 + asked, number: 1, tookOver: false };
}

/** @param {number} attempt */
async function contend(attempt) {
  const { id, key } = keys[anyBelow(keys.length)] ?? { id: "", key: "" };
  const token = randomUUID();
  note("ask", attempt, key, now());
  const request = { id, parts: { ...parts, key }, token, leaseMs, retentionMs: RETENTION_MS, hold: false };
  const answer = believed(await store.claim(request));
  if (answer.status !== "new") return note("no", attempt, answer.status);
  note("own", attempt, answer.fence, answer.tookOver, now());
  await hold();
  if (anyBelow(4) === 0) await take(attempt, "renew", () => store.renew({ id, token, leaseMs }));
  if (anyBelow(2) === 0) await take(attempt, "abandon", () => store.abandon({ id, token, as: "released" }));
  else await take(attempt, "complete", () => store.complete({ id, token, outcome: "done", retentionMs: 1 }));
}

/**
 * @param {number} attempt
 * @param {"renew" | "abandon" | "complete"} step
 * @param {() => Promise<boolean>} call
 */
async function take(attempt, step, call) {
  note("try", attempt, step, now());
  const answer = await call();
  note("told", attempt, answer, now());
}

/** Waits up to two milliseconds. With `isHeld` it waits once, halfway through its claims, until the test has paused it and sends a message, or kills it. */
async function hold() {
  if (!isHeld || hasHeld || asked < claims / 2) return sleep(anyBelow(3));
  hasHeld = true;
  await new Promise((resolve) => {
    goOn = () => resolve(undefined);
    process.send?.({ kind: "holding" });
  });
}

async function lane() {
  while (asked < claims || !isOver) {
    const attempt = ++asked;
    await contend(attempt).catch((error) => note("error", attempt, String(error)));
  }
}

await new Promise((begin) => {
  process.on("message", (message) => {
    if (message === "begin") begin(undefined);
    else if (message === "go-on") goOn();
    else isOver = true;
  });
  process.send?.({ kind: "ready" });
});
await Promise.all(Array.from({ length: lanes }, lane));
await store.close();
process.disconnect();
