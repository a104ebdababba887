/** Puts load on an application with wrk, which uses the least of the processor that it shares with the application. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { makeOperations } from "../payload.js";

/**
 * A set of keys, each with its own request: number `n` has `keyOf(n)` and `bodyOf(n)`.
 *
 * @typedef {object} Keys
 * @property {string} prefix
 * @property {(n: number) => string} keyOf
 */

/** @typedef {{ perSecond: number, p50: number, p99: number, requests: number }} Measured latencies in milliseconds */

const SCRIPT = fileURLToPath(new URL("load.lua", import.meta.url));
/** No run takes this long, since the script ends it first. */
const LONGEST_SECONDS = 120;

export const ACCOUNT = "Bearer merchant-4711";

const [pattern] = makeOperations(1);
if (pattern === undefined) throw new Error("there is no request");
const [bodyHead = "", bodyTail = ""] = JSON.stringify(pattern.body).split("000000000");

/** @returns {Keys} keys that were never used before */
export function freshKeys() {
  // 36 characters, as a UUID has; the last twelve are a counter.
  const prefix = randomUUID().slice(0, 24);
  return { prefix, keyOf: (n) => prefix + String(n).padStart(12, "0") };
}

/** @param {number} n */
export function bodyOf(n) {
  return `${bodyHead}${String(n).padStart(9, "0")}${bodyTail}`;
}

/**
 * Sends `total` requests, the first `keys` of which are first calls and the others their retries. Rejects if one of them
 * did not succeed.
 *
 * @param {{ port: number, keys: Keys, keyCount: number, total: number, connections: number, path?: string, body?: readonly [string, string], account?: string }} plan
 * `body` is the text before and after a request's number, if not the usual one
 * @returns {Promise<Measured>}
 */
export async function load({
  port,
  keys,
  keyCount,
  total,
  connections,
  path = "/charges",
  body = [bodyHead, bodyTail],
  account = ACCOUNT,
}) {
  const longest = `${LONGEST_SECONDS}s`;
  const options = ["-t", "1", "-c", String(connections), "-d", longest, "--timeout", longest, "-s", SCRIPT];
  const words = [path, account, keys.prefix, ...body, String(keyCount), String(total)];
  const { stdout } = await promisify(execFile)("wrk", [
    ...options,
    `http://127.0.0.1:${port}`,
    "--",
    ...words,
  ]).catch((error) => {
    throw error.code === "ENOENT" ? new Error("wrk is not installed: apt-get install wrk") : error;
  });
  const answer = stdout.split("\n").find((line) => line.startsWith("{"));
  if (answer === undefined) throw new Error(`wrk did not say what it measured:\n${stdout}`);
  const { requests, duration, p50, p99, refused, lost } = JSON.parse(answer);
  if (refused + lost > 0)
    throw new Error(`of ${requests} requests ${refused} were refused, and ${lost} were not answered`);
  return { perSecond: requests / (duration / 1e6), p50: p50 / 1e3, p99: p99 / 1e3, requests };
}
