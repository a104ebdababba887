/**
 * One of several processes that hold, confirm, release and give back units of the same resources. It writes each request and
 * each answer to a file before it continues, and the file remains after a kill. A process that takes over a file repeats the
 * requests without an answer.
 */
import { openSync, readFileSync, writeSync } from "node:fs";
import { createReservations } from "../../../dist/reservations/index.js";
import { openReservations } from "../../../dist/reservations/open.js";

/**
 * @typedef {object} Options
 * @property {string} url
 * @property {string} name of this process, and of the one that takes over from it
 * @property {number} actions how many answers it gets at least
 * @property {number} lanes how many actions run at once
 * @property {readonly string[]} resources
 * @property {string} notes the file
 * @property {object} rules
 */

/** @typedef {{ action: "placeHold" | "confirm" | "release" | "expire" | "giveBack", key: string, parameters: object }} Call */

/** @type {Options} */
const { url, name, actions, lanes, resources, notes, rules } = JSON.parse(process.argv[2] ?? "{}");
const store = await openReservations(url, { migrate: false });
const reservations = createReservations({ store, .../** @type {{ windowMs: number }} */ (rules) });
const file = openSync(notes, "a+");

/** @type {Call[]} */
const calls = [];
/** @type {Set<number>} */
const open = new Set();
/** The ids of held and of confirmed commitments, as far as this process knows. */
/** @type {string[]} */
const held = [];
/** @type {string[]} */
const confirmed = [];
let told = 0;

/** @param {unknown[]} line */
function note(...line) {
  writeSync(file, `${JSON.stringify(line)}\n`);
}

/**
 * @param {number} number
 * @param {{ ok: boolean, id?: string }} answer
 */
function learn(number, answer) {
  told++;
  if (!open.delete(number) || !answer.ok) return;
  const { action, parameters } = /** @type {Call} */ (calls[number]);
  if (answer.id !== undefined) held.push(answer.id);
  if (action === "confirm") confirmed.push(/** @type {{ id: string }} */ (parameters).id);
}

// A line that was cut off when its process died was never acted on.
for (const line of readFileSync(notes, "utf8").split("\n").slice(0, -1)) {
  const [kind, number, what] = JSON.parse(line);
  if (kind === "ask") {
    calls[number] = what;
    open.add(number);
  } else learn(number, what);
}
const unanswered = [...open];

/** @param {number} most */
function anyBelow(most) {
  return Math.floor(Math.random() * most);
}

/**
 * @template T
 * @param {readonly T[]} list
 */
function anyOf(list) {
  return /** @type {T} */ (list[anyBelow(list.length)]);
}

/**
 * Returns one of the latest ids. Three times out of four it removes the id from the list; otherwise the id can be used again.
 *
 * @param {string[]} ids
 */
function oneOf(ids) {
  const index = Math.max(0, ids.length - 1 - anyBelow(8));
  const [id] = anyBelow(4) > 0 ? ids.splice(index, 1) : ids.slice(index, index + 1);
  return id;
}

/** @returns {Call} */
function draw() {
  const key = `${name} ${calls.length}`;
  const chance = anyBelow(100);
  if (chance < 20 && confirmed.length > 0)
    return { action: "giveBack", key, parameters: { id: oneOf(confirmed) } };
  if (chance < 60 && held.length > 0) {
    const action = anyOf(/** @type {const} */ (["confirm", "confirm", "release", "expire"]));
    return { action, key, parameters: { id: oneOf(held) } };
  }
  const durationMs = anyOf([1, 20, 200, 1_000, 5_000]);
  const parameters = { resource: anyOf(resources), requester: name, durationMs, units: 1 + anyBelow(2) };
  return { action: "placeHold", key, parameters };
}

/** @param {number} number */
async function carryOut(number) {
  const { action, key, parameters } = /** @type {Call} */ (calls[number]);
  const act =
    /** @type {(request: object) => Promise<import("../../../dist/reservations/index.js").Answer>} */ (
      reservations[action]
    );
  const answer = await act({ key, ...parameters });
  note("told", number, answer);
  learn(number, answer);
  if (told % 50 === 0) process.send?.({ kind: "progress", told });
}

async function lane() {
  for (let number = unanswered.pop(); number !== undefined; number = unanswered.pop()) await carryOut(number);
  while (told < actions) {
    // One in ten requests is sent again, answered or not.
    if (anyBelow(10) === 0 && calls.length > 0) {
      await carryOut(anyBelow(calls.length));
      continue;
    }
    const number = calls.length;
    const call = draw();
    calls.push(call);
    open.add(number);
    note("ask", number, call);
    await carryOut(number);
  }
}

await Promise.all(Array.from({ length: lanes }, lane));
await reservations.close();
await store.close();
process.send?.({ kind: "over", told });
process.disconnect();
