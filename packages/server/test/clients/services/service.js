/**
 * A service, as a process that can be killed: on a framework with the idempotency layer on a SQLite file, or plain, to stand
 * behind a gateway. What happens to a piece of work is in its name. Every arrival and every effect is a line in a ledger,
 * which is no part of nevertwice.
 */
import { appendFileSync, readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { createGuard } from "nevertwice";
import { keptResponse } from "nevertwice/http";
import { sqliteStore } from "nevertwice/stores/sqlite";
import { DERIVED } from "./door.js";
import { opening } from "./plain.js";

/** @typedef {keyof typeof DOORS} DoorKind */
/** @typedef {{ kind: DoorKind, ledger: string, file: string, port: number, reconciles: boolean }} ServiceSetting */
/** @typedef {import("./door.js").ServiceAnswer} ServiceAnswer */

/** @type {ServiceSetting} */
const { kind, ledger, file, port, reconciles } = JSON.parse(process.argv[2] ?? "");

const LONG_WORK_MS = 10_000;
const NEVER = new Promise(() => {});
/** Longer than the responses that are kept by default. */
const PAD = "x".repeat(1_100_000);

/** @param {readonly string[]} words */
const note = (...words) => appendFileSync(ledger, `${words.join(" ")}\n`);

/** @returns {string[][]} */
const lines = () =>
  readFileSync(ledger, "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(" "));

/**
 * @param {string} event
 * @param {string} work
 */
const count = (event, work) => lines().filter(([is, of]) => is === event && of === work).length;

/**
 * Does the work that the body names.
 *
 * @param {string} body
 * @param {{ key?: string | undefined, cut?: () => void }} [door] the derived key, and how the gateway loses the service
 * @returns {Promise<ServiceAnswer | undefined>} undefined if the connection is lost
 */
async function serve(body, { key = "-", cut = () => {} } = {}) {
  const [work = "", fault = ""] = /work\.([a-z0-9-]+)\.[a-z0-9-]+\.\d+/.exec(body) ?? [];
  const isFirst = count("arrived", work) === 0;
  note("arrived", work);
  const effect = () => {
    const id = `${work}-${count("effect", work)}`;
    note("effect", work, id, key);
    return id;
  };
  if (fault.startsWith("long")) await setTimeout(LONG_WORK_MS);
  if (!isFirst) return { status: 200, body: { id: effect() } };
  if (fault === "busy") return { status: 503, body: { error: { type: "api_error", message: "busy" } } };
  if (fault.endsWith("killed-before")) await NEVER;
  if (fault === "lost-before") return void cut();
  const id = effect();
  if (fault.endsWith("killed-after")) {
    note("waits", work);
    await NEVER;
  }
  if (fault === "lost-after" || fault === "keyless-lost") return void cut();
  return { status: 200, body: fault === "unkept" ? { pad: PAD, id } : { id } };
}

/**
 * What became of a key, for a door with `reconcile`: the body of its answer, or undefined if there was no effect.
 *
 * @param {string} key
 */
function findDone(key) {
  const [, , id] = lines().find(([event, , , of]) => event === "effect" && of === key) ?? [];
  return id === undefined ? undefined : JSON.stringify({ id });
}

/** @param {string} key */
function outcome(key) {
  const body = findDone(key);
  if (body === undefined) return { status: "not-done" };
  return { status: "done", response: { status: 200, headers: { "content-type": "application/json" }, body } };
}

/** @type {import("nevertwice").GuardOptions["reconcile"]} */
const reconcile = async (lapsed) => {
  const body = findDone(lapsed.deriveKey(DERIVED));
  if (body === undefined) return { status: "not-done" };
  const value = keptResponse({ status: 200, headers: [["content-type", "application/json"]], body });
  return { status: "done", value };
};

const DOORS = {
  express: async () => (await import("./express.js")).open,
  fastify: async () => (await import("./fastify.js")).open,
  hono: async () => (await import("./hono.js")).open,
  nest: async () => (await import("./nest.js")).open,
  fetch: async () => (await import("./fetch.js")).open,
  plain: async () => opening(outcome),
};

const guard = () =>
  createGuard({
    store: sqliteStore({ file }),
    namespace: "shop",
    ...(reconciles && { onLapsed: "hold", reconcile }),
  });
const open = await DOORS[kind]();
const address = await open({ guard, port, serve });
// It ends with the process that started it.
process.stdin.resume().once("end", () => process.exit());
process.stdout.write(`listening on ${address.port}\n`);
