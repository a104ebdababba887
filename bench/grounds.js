/** Where the contenders meet: each ground has one store, the contenders that have it, and the bars that we want to clear. */
import { memory } from "./grounds/memory.js";
import { postgres } from "./grounds/postgres.js";
import { redis } from "./grounds/redis.js";
import { sqlite } from "./grounds/sqlite.js";

/**
 * Who is measured, and with which settings: the best that each one documents for this job.
 *
 * @typedef {object} Contender
 * @property {string} name at the head of its column
 * @property {string} file under `contenders/`; it exports `create({ ground, place, hasFingerprint, capacity })`, which
 * resolves to `{ run(key, body, work), close() }`. `capacity` is how many keys it will be given.
 * @property {readonly string[]} packages whose versions matter
 * @property {string} store
 * @property {string | undefined} withFingerprint undefined: it is not asked, and `store` says why
 * @property {string} withoutFingerprint
 */

/** @typedef {{ runs: number, keys: number, laps: number, warmup: number, inFlight: number }} Size */

/**
 * One table of results: the same contenders on the same server, which may be set up in several ways.
 *
 * @typedef {object} Table
 * @property {string} durability what survives what, by the words of the store
 * @property {Readonly<Record<string, string>> | undefined} settings of the server
 * @property {readonly boolean[]} fingerprints without, with, or both
 * @property {Size} size
 */

/**
 * @typedef {object} Ground
 * @property {string} name
 * @property {string} title
 * @property {"redis" | "postgres" | undefined} server that is started for it
 * @property {Contender} ours
 * @property {readonly Contender[]} peers
 * @property {Contender | undefined} raw the same statements by hand: what the store itself can do at most
 * @property {number} ratioMeant ours to the best peer
 * @property {string} bytes what is counted for each key
 * @property {string | undefined} profileNote how to read the profiles of it
 * @property {readonly Table[]} tables
 */

/** Ours to the raw loop. */
export const RAW_RATIO_MEANT = 0.6;

/** @type {readonly Ground[]} */
export const grounds = [memory, redis, postgres, sqlite];

/**
 * In the order of their columns.
 *
 * @param {Ground} ground
 */
export function contendersOf({ ours, peers, raw }) {
  return raw === undefined ? [ours, ...peers] : [ours, ...peers, raw];
}
