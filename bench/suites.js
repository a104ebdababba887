/** The suites that compare libraries on a database: what each of them measures, and the ratios that we aim for. */
import { events } from "./suites/events.js";
import { memory } from "./suites/memory.js";
import { pipeline } from "./suites/pipeline.js";
import { postgres } from "./suites/postgres.js";
import { redis } from "./suites/redis.js";
import { reservations } from "./suites/reservations.js";
import { sqlite } from "./suites/sqlite.js";

/**
 * A library that is measured, with the best settings that it documents for this job.
 *
 * @typedef {object} Library
 * @property {string} name at the head of its column
 * @property {string} file under `libraries/`
 * @property {readonly string[]} packages whose versions matter
 * @property {string} settings
 * @property {string} [withFingerprint] undefined if it is not measured with one
 * @property {string} [withoutFingerprint]
 */

/** @typedef {{ runs: number, count: number, warmup: number, inFlight: number, laps?: number, alone?: number }} Size `alone`: calls that are timed one by one */

/**
 * One line of each table.
 *
 * @typedef {object} Phase
 * @property {string} name in what a run measured
 * @property {string} title
 * @property {boolean} [hasFingerprint]
 */

/**
 * One table of results: libraries on one database, with one of its settings.
 *
 * @typedef {object} Table
 * @property {string} store under `databases/`
 * @property {string} [title] where the durability does not name the table
 * @property {string} durability what a crash loses, in the terms of the database
 * @property {import("./servers.js").Servers} servers
 * @property {readonly Phase[]} [phases] if not all of the suite's
 * @property {Library} ours
 * @property {readonly Library[]} peers
 * @property {Library} [raw] the same statements by hand: the most that the database can do
 * @property {import("./report.js").Meant} [ratioMeant] ours to the best peer
 * @property {string} [bytes] what is counted for each operation; undefined where libraries cannot be compared
 * @property {Size} size
 */

/**
 * @typedef {object} Suite
 * @property {string} name
 * @property {string} title
 * @property {string} script that measures one run
 * @property {string} operation what is counted, in the singular
 * @property {string} peer with what the ratio compares
 * @property {string} kept for what the bytes are counted
 * @property {string} intro
 * @property {(size: Size) => readonly string[]} method under which conditions it measures, what each run checks, and more
 * @property {string} [profileNote] how to read its profiles
 * @property {readonly Phase[]} phases
 * @property {readonly Table[]} tables
 * @property {Partial<Size>} quick the size of a quick run
 */

/** Ours to the raw loop. */
export const RAW_RATIO_MEANT = 0.6;

/** @type {readonly Suite[]} */
export const suites = [memory, redis, postgres, sqlite, reservations, events, pipeline];

/**
 * In the order of their columns.
 *
 * @param {Table} table
 */
export function librariesOf({ ours, peers, raw }) {
  return raw === undefined ? [ours, ...peers] : [ours, ...peers, raw];
}
