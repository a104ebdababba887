/**
 * One of several processes that hold, confirm, release and give back the same things. It notes what it asks and what it
 * is told, each before it goes on, in a file that outlives it. Whoever takes over a file asks again for what was not answered.
 */
import { openSync, readFileSync, writeSync } from "node:fs";
import { createReservations } from "../../../dist/reservations/index.js";
import { openReservations } from "../../../dist/reservations/open.js";

/**
 * @typedef {object} Options
 * @property {string} url
 * @property {string} name of this process and of whoever takes over from it
 * @property {number} actions at least so many answers
 * @property {number} lanes how many actions are under way at once
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
/** Ids of what is held and of what was confirmed, as far as this process was told. */
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

// A line that was cut off by the end of whoever wrote it was never acted on.
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
 * One of the latest; it is taken from the list three times of four, and else asked for again.
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
  const answer = await reservations[action](/** @type {never} */ ({ key, ...parameters }));
  note("told", number, answer);
  learn(number, answer);
  if (told % 50 === 0) process.send?.({ kind: "progress", told });
}

async function lane() {
  for (let number = unanswered.pop(); number !== undefined; number = unanswered.pop()) await carryOut(number);
  while (told < actions) {
    // One in ten is asked again, answered or not.
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
