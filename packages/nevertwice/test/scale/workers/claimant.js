/**
 * One of several processes that claim and finish the same keys while the store loses its leader. Like a guard, it repeats a
 * call that got no answer with the same token until it is answered. Before and after its work it makes an entry in the ledger,
 * which is outside of the store; what the store acknowledged goes to a file.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { openSync, writeSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "./open.js";

/**
 * @typedef {object} Options
 * @property {string} url of the store
 * @property {number} ledger its port
 * @property {number} lanes how many claims run at once
 * @property {number} pauseMs how long a lane rests after each claim
 * @property {string} notes the file
 */

/** @type {Options} */
const { url, ledger, lanes, pauseMs, notes } = JSON.parse(process.argv[2] ?? "{}");
/** Longer than the trial: no claim lapses, so that a second owner is always a mistake. */
const LEASE_MS = 900_000;
const RETENTION_MS = 3_600_000;
/** Longer than any failover of a trial. */
const CALL_MS = 60_000;
/** Each process goes through the keys in their order, and picks among so many, so that processes meet. */
const WINDOW = 100;

const store = await open(url, { migrate: false });
const file = openSync(notes, "a");
let at = 0;
let isOver = false;

const now = () => Number(process.hrtime.bigint() / 1_000n);

/** @param {number} most */
const anyBelow = (most) => Math.floor(Math.random() * most);

/** @param {import("../lost-leader-judge.ts").ClaimantNote} line */
function note(...line) {
  writeSync(file, `${JSON.stringify(line)}\n`);
}

const socket = connect(ledger, "127.0.0.1");
await once(socket, "connect");
/** @type {Map<number, (isNew: boolean) => void>} */
const waiting = new Map();
let entries = 0;
let rest = "";
socket.setEncoding("utf8").on("data", (text) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const { try: id, isNew } = JSON.parse(line);
    waiting.get(id)?.(isNew);
    waiting.delete(id);
  }
});

/**
 * @param {"enter" | "leave"} what
 * @param {string} key
 * @param {number} fence
 * @param {number} number
 * @param {string} token
 */
function enter(what, key, fence, number, token) {
  const id = ++entries;
  const line = {
    try: id,
    key: `${what} ${token}`,
    message: `${what} ${key}`,
    pid: process.pid,
    fence,
    number,
  };
  socket.write(`${JSON.stringify(line)}\n`);
  return new Promise((resolve) => waiting.set(id, resolve));
}

/**
 * Repeats the call until the store answers it; undefined if the trial ended before.
 *
 * @template T
 * @param {() => Promise<T>} call
 * @returns {Promise<T | undefined>}
 */
async function answered(call) {
  const from = performance.now();
  for (let tries = 1; ; tries++) {
    try {
      const answer = await inTime(call());
      note("step", now(), performance.now() - from, tries);
      return answer;
    } catch (error) {
      const code = /** @type {{ code?: string }} */ (error).code;
      if (code !== "unavailable") throw error;
      if (isOver) return undefined;
      await sleep(20);
    }
  }
}

/**
 * Like a guard's `storeTimeoutMs`. A driver may forget a statement whose connection was lost.
 *
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
async function inTime(answer) {
  const limit = new AbortController();
  const late = sleep(CALL_MS, undefined, { signal: limit.signal }).then(() => {
    throw Object.assign(new Error("no answer in time"), { code: "unavailable" });
  });
  late.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    limit.abort();
  }
}

async function claimOne() {
  // About three of eight processes meet at each key.
  at += 1 + anyBelow(5);
  const key = `key-${at + anyBelow(WINDOW)}`;
  const token = randomUUID();
  const parts = { namespace: "scale", scope: "", operation: "lose-leader", key };
  const terms = { leaseMs: LEASE_MS, retentionMs: RETENTION_MS, hold: false };
  const answer = await answered(() => store.claim({ id: key, parts, token, ...terms }));
  if (answer?.status !== "new") return;
  const { fence, number } = answer;
  await enter("enter", key, fence, number, token);
  await enter("leave", key, fence, number, token);
  if (Math.random() < 0.25) {
    const isFreed = await answered(() => store.abandon({ id: key, token, as: "released" }));
    if (isFreed === false) note("refused", key, "abandon", fence);
    return;
  }
  const outcome = `of ${token}`;
  const isDone = await answered(() => store.complete({ id: key, token, outcome, retentionMs: RETENTION_MS }));
  if (isDone === true) note("done", key, fence, outcome, now());
  if (isDone === false) note("refused", key, "complete", fence);
}

async function lane() {
  while (!isOver) {
    await claimOne();
    if (pauseMs > 0) await sleep(pauseMs);
  }
}

await new Promise((begin) => {
  process.on("message", (message) => {
    if (message === "begin") begin(undefined);
    else isOver = true;
  });
  process.send?.({ kind: "ready" });
});
try {
  await Promise.all(Array.from({ length: lanes }, lane));
} finally {
  socket.destroy();
  await store.close();
  process.disconnect();
}
