/** The suites of stores: each has one database, the libraries that support it, and the ratios that we aim for. */
import { memory } from "./suites/memory.js";
import { postgres } from "./suites/postgres.js";
import { redis } from "./suites/redis.js";
import { sqlite } from "./suites/sqlite.js";

/**
 * A library that is measured, with the best settings that it documents for this job.
 *
 * @typedef {object} Library
 * @property {string} name at the head of its column
 * @property {string} file under `libraries/`; it exports `create({ suite, target, hasFingerprint, capacity })`, which
 * resolves to `{ run(key, body, work), close() }`. `capacity` is how many keys it will be given.
 * @property {readonly string[]} packages whose versions matter
 * @property {string} store
 * @property {string | undefined} withFingerprint undefined if it is not measured, and `store` says why
 * @property {string} withoutFingerprint
 */

/** @typedef {{ runs: number, keys: number, laps: number, warmup: number, inFlight: number }} Size */

/**
 * One table of results: the same libraries on the same server, with one of its settings.
 *
 * @typedef {object} Table
 * @property {string} durability what a crash loses, in the terms of the database
 * @property {Readonly<Record<string, string>> | undefined} settings of the server
 * @property {readonly boolean[]} fingerprints without, with, or both
 * @property {Size} size
 */

/**
 * @typedef {object} Suite
 * @property {string} name
 * @property {string} title
 * @property {"redis" | "postgres" | undefined} server that is started for it
 * @property {Library} ours
 * @property {readonly Library[]} peers
 * @property {Library | undefined} raw the same statements by hand: the most that the database can do
 * @property {number} ratioMeant ours to the best peer
 * @property {string} bytes what is counted for each key
 * @property {string | undefined} profileNote how to read the profiles of it
 * @property {readonly Table[]} tables
 */

/** Ours to the raw loop. */
export const RAW_RATIO_MEANT = 0.6;

/** @type {readonly Suite[]} */
export const suites = [memory, redis, postgres, sqlite];

/**
 * In the order of their columns.
 *
 * @param {Suite} suite
 */
export function librariesOf({ ours, peers, raw }) {
  return raw === undefined ? [ours, ...peers] : [ours, ...peers, raw];
}
