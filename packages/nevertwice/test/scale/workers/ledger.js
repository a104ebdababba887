/**
 * The ledger of a trial of deliveries, in its own process, which the trial never kills. The work of the trial is an entry
 * here. The ledger knows nothing about claims: it records every try, and enters each key once.
 *
 * A try is a line of JSON over a socket, answered with whether it was entered now: `{ "try": 1, … }`, `{ "try": 1, "isNew": true }`.
 */
import { createServer } from "node:net";

/**
 * @typedef {object} Try
 * @property {string} key under which it is entered once
 * @property {string} message
 * @property {number} pid of the process that tried
 * @property {number} fence of its claim
 * @property {number} number of its attempt
 * @property {number} at when it was noted, in microseconds of the monotonic clock
 * @property {boolean} isNew whether nothing was entered under this key before
 */

/** @type {Try[]} */
const tries = [];
const entered = new Set();

/** @param {import("node:net").Socket} socket */
function serve(socket) {
  // The process at the other end may be killed at any time.
  socket.on("error", () => {});
  let rest = "";
  socket.setEncoding("utf8").on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    socket.write(lines.map((line) => `${JSON.stringify(enter(JSON.parse(line)))}\n`).join(""));
  });
}

/** @param {Omit<Try, "at" | "isNew"> & { try: number }} line */
function enter({ try: id, ...tried }) {
  const isNew = !entered.has(tried.key);
  entered.add(tried.key);
  tries.push({ ...tried, isNew, at: Number(process.hrtime.bigint() / 1_000n) });
  return { try: id, isNew };
}

const server = createServer(serve).listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.send?.({ kind: "ready", port: typeof address === "object" ? address?.port : undefined });
});
process.on("message", () => process.send?.({ kind: "report", tries }));
