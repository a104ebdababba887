/**
 * A process that runs effects for a list of keys, and is killed on the way. It writes each request before it is made, and each
 * answer before the next request, to a file that remains after the kill.
 */
import { randomUUID } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { dieAt } from "./effects/points.js";

/**
 * @typedef {object} Options
 * @property {string} door a file of workers/effects/
 * @property {string} driver one of its drivers
 * @property {string} url of the database
 * @property {string} library folder of the built library
 * @property {string} notes the file
 * @property {readonly string[]} keys
 * @property {import("./effects/points.js").Point} [point] where the process kills itself
 * @property {boolean} [isSurvivor] it repeats each key until it is done, and ends by itself
 * @property {number} [tries] a key that is not done after these is lost; default 40
 */

/** @typedef {(...line: readonly unknown[]) => void} TakeNote */
/** @typedef {{ newValue(): string, note: TakeNote }} Asked */
/**
 * @typedef {object} Opened
 * @property {(key: string, asked: Asked) => Promise<unknown>} run
 * @property {() => Promise<void>} [rest] what it still does when all keys are done
 * @property {() => Promise<unknown>} close
 */
/**
 * @typedef {object} Scene
 * @property {string} url
 * @property {import("./effects/databases.js").Load} load
 * @property {(options: object) => any} createGuard
 * @property {(id: string, order: string, value: string, part: number) => void} noteDelivery a message of an outbox arrives
 */
/** @typedef {(scene: Scene) => Promise<Opened>} OpenDoor */

/** @type {Options} */
const options = JSON.parse(process.argv[2] ?? "{}");
const { door, driver, url, library, notes, keys, point, isSurvivor, tries: maxTries = 40 } = options;
/** One connection remains for the store. */
const LANES = 3;
const PAUSE_MS = 200;
const file = openSync(notes, "a");
const load = (/** @type {string} */ name) => import(`${library}/${name}`);

/** All processes read the same monotonic clock. @type {TakeNote} */
function note(...line) {
  writeSync(file, `${JSON.stringify([...line, Number(process.hrtime.bigint() / 1_000n)])}\n`);
}

const { createGuard } = await load("index.js");
/** @type {{ DRIVERS: Readonly<Record<string, OpenDoor>> }} */
const { DRIVERS } = await import(`./effects/${door}.js`);
const limits = { purgeEveryMs: 0, waitMs: isSurvivor ? 2_000 : 200 };
const opened = await /** @type {OpenDoor} */ (DRIVERS[driver])({
  url,
  load,
  createGuard: (options) => createGuard({ ...limits, ...options }),
  noteDelivery: (...delivery) => note("delivered", 0, ...delivery),
});

let asked = 0;

/** @param {string} key @returns {Promise<boolean>} whether it is done */
async function ask(key) {
  const number = ++asked;
  note("ask", number, key);
  const newValue = () => {
    const value = randomUUID();
    note("work", number, value);
    return value;
  };
  try {
    const value = await opened.run(key, { newValue, note: (kind, ...more) => note(kind, number, ...more) });
    note("told", number, "done", value);
    return true;
  } catch (error) {
    const { code } = /** @type {{ code?: unknown }} */ (error ?? {});
    note("told", number, typeof code === "string" ? code : "error", String(error));
    return false;
  }
}

const left = [...keys];

async function lane() {
  for (let key = left.shift(); key !== undefined; key = left.shift()) {
    for (let tries = 1; !(await ask(key)) && isSurvivor && tries < maxTries; tries++) await sleep(PAUSE_MS);
  }
}

process.send?.({ kind: "ready" });
if (point !== undefined) dieAt(point);
await Promise.all(Array.from({ length: LANES }, lane));
if (isSurvivor) {
  await opened.close();
  process.disconnect();
} else {
  await opened.rest?.();
  process.send?.({ kind: "idle" });
}
