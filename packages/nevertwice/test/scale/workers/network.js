/**
 * One of several processes that run a network of five nodes over the same messages. Each process kills itself at the stage
 * of a message that its options name, so that every stage is interrupted once. Every node except the source enters each
 * message in the ledger. Acknowledged messages and notes are lines in files, which remain after the kill.
 */
import { randomUUID } from "node:crypto";
import { openSync, readFileSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard } from "../../../dist/index.js";
import { definePipeline } from "../../../dist/pipeline/index.js";
import { openLedger } from "./enter.js";
import { open } from "./open.js";

/** @typedef {import("../../../src/pipeline/index.ts").NodeManifest} NodeManifest */
/** @typedef {import("../../../src/pipeline/index.ts").ShellContext} ShellContext */
/** @typedef {import("../../../src/pipeline/index.ts").Pulled} Pulled */
/** @typedef {import("../pipeline-stages.ts").Point} Point */

/**
 * @typedef {object} Options
 * @property {string} url of the store
 * @property {string} namespace
 * @property {number} leaseMs
 * @property {number} ledger its port
 * @property {string} notes the file
 * @property {string} acknowledged the file, which all of them share
 * @property {number} own the first message that no other process delivers yet
 * @property {number} count of all messages: `order-0`, `order-1`, …
 * @property {boolean} bringsAll whether acknowledged messages are delivered too
 * @property {Point & { nth: number }} [killed] where it ends itself
 * @property {Fault} [fault] a deliberate bug that the referee must report
 */

/** @typedef {"acknowledges-before-dispatch" | "has-no-keys"} Fault */
/** @typedef {["taken-over", keyHash: string, fence: number] | ["told", kind: string] | ["killed", pid: number, at: number]} Note */
/** @typedef {{ id: string }} Order */

/** @type {Options} */
const { url, namespace, leaseMs, ledger, notes, acknowledged, own, count, bringsAll, killed, fault } =
  JSON.parse(process.argv[2] ?? "{}");
const AGAIN_MS = 100;
const LOOK_MS = 20;

const store = await open(url, { migrate: false });
const enter = await openLedger(ledger);
const noteFile = openSync(notes, "a");
const acknowledgedFile = openSync(acknowledged, "a+");
let reached = 0;

/** @param {Note} line */
function note(...line) {
  writeSync(noteFile, `${JSON.stringify(line)}\n`);
}

/**
 * Kills this process if it has reached the point that its options name.
 *
 * @param {string} node
 * @param {string} stage
 */
function reach(node, stage) {
  if (killed?.node !== node || killed.stage !== stage || ++reached < killed.nth) return;
  note("killed", process.pid, Number(process.hrtime.bigint() / 1_000n));
  process.kill(process.pid, "SIGKILL");
}

/**
 * A node that enters each message in the ledger, and emits it on each of its out-ports.
 *
 * @param {string} name
 * @param {"transform" | "router" | "sink"} kind
 * @param {readonly string[]} out
 * @returns {{ use: NodeManifest }}
 */
function step(name, kind, out = []) {
  const isKeyed = fault !== "has-no-keys";
  /**
   * @param {Order} order
   * @param {ShellContext} context
   */
  async function effect(order, { deriveKey, fence = 0, emit }) {
    if (isRefused(order, name, fence)) throw new Error("not at first");
    const key = isKeyed ? deriveKey("ledger") : randomUUID();
    await enter({ key, message: `${order.id} ${name}`, pid: process.pid, fence, number: fence });
    reach(name, "done");
    return out.map((port) => emit(port, order));
  }
  /** @param {Order} order */
  function core(order) {
    reach(name, "decided");
    return order;
  }
  return {
    use: {
      node: { id: name, version: "1.0.0", kind },
      ports: {
        in: { in: { schema: `${name}@1` } },
        out: Object.fromEntries(out.map((port) => [port, {}])),
      },
      contract: {
        pure_core: core,
        effect_shell: effect,
        ...(isKeyed && { idempotency: { key: "id" } }),
      },
    },
  };
}

/** @type {Set<string>} */
const refused = new Set();
/** @type {Set<number>} */
const takenOver = new Set();

/**
 * One in seven messages fails in its last node the first time, before the work of that node: the other nodes are done with
 * it by then. A message that was taken over is not refused, so that the process that took it over also tries it.
 *
 * @param {Order} order
 * @param {string} node
 * @param {number} fence
 */
function isRefused({ id }, node, fence) {
  if (node !== "pack" || Number(id.slice("order-".length)) % 7 !== 0) return false;
  if (refused.has(id) || takenOver.has(fence)) return false;
  refused.add(id);
  return true;
}

/** @param {string} name */
function schemaOf(name) {
  return async () => {
    reach(name, "arrived");
    await Promise.resolve();
    reach(name, "validated");
  };
}

/** The messages of this process first, then those of the others. */
const messages = Array.from({ length: count }, (_, index) => `order-${(own + index) % count}`);
const unsettled = new Set(messages);
const waiting = messages.flatMap((id, index) => (index % 3 === 0 ? [id, id] : [id]));

function lookAtAcknowledged() {
  if (bringsAll) return;
  for (const id of readFileSync(acknowledged, "utf8").split("\n")) unsettled.delete(id);
}

/** @param {string} id */
function acknowledge(id) {
  writeSync(acknowledgedFile, `${id}\n`);
  unsettled.delete(id);
}

/** @returns {AsyncGenerator<Pulled>} */
async function* bring() {
  lookAtAcknowledged();
  while (unsettled.size > 0) {
    const id = waiting.shift();
    if (id === undefined) {
      await sleep(LOOK_MS);
      lookAtAcknowledged();
    } else if (unsettled.has(id)) {
      reach("orders", "brought");
      yield { payload: { id }, id, settled: ({ verdict }) => settle(id, verdict) };
    }
  }
}

/**
 * @param {string} id
 * @param {"acknowledge" | "later" | "reject"} verdict
 */
function settle(id, verdict) {
  reach("orders", "settled");
  if (verdict === "acknowledge") {
    acknowledge(id);
    reach("orders", "acknowledged");
  } else {
    if (verdict === "reject") note("told", "rejected");
    setTimeout(() => waiting.push(id), AGAIN_MS);
  }
}

const guard = createGuard({
  store,
  namespace,
  leaseMs,
  observer(event) {
    if (event.kind === "taken-over") {
      note("taken-over", event.keyHash, event.fence);
      takenOver.add(event.fence);
    }
    if (!("operation" in event)) return;
    const isClaim = event.kind === "claimed" || event.kind === "taken-over";
    // The stored emissions of a node are dispatched under their own claim.
    if (event.operation === "nevertwice:settled") {
      if (isClaim) reach("price", "sending");
      if (event.kind === "completed") reach("price", "sent");
    } else if (isClaim) reach(event.operation.replace("shop/", ""), "claimed");
  },
});
const pipeline = await definePipeline({
  network: { id: "shop", version: "1.0.0" },
  schemas: Object.fromEntries(
    ["price", "charge", "pack", "notify"].map((name) => [`${name}@1`, schemaOf(name)]),
  ),
  nodes: {
    orders: {
      use: {
        node: { id: "orders", version: "1.0.0", kind: "source" },
        ports: { out: { orders: {} } },
        contract: { effect_shell: bring },
      },
    },
    price: step("price", "transform", ["priced"]),
    charge: step("charge", "router", ["goods", "mail"]),
    pack: step("pack", "sink"),
    notify: step("notify", "sink"),
  },
  edges: [
    { from: "orders.orders", to: "price.in" },
    { from: "price.priced", to: "charge.in" },
    { from: "charge.goods", to: "pack.in" },
    { from: "charge.mail", to: "notify.in" },
  ],
  deploy: { concurrency: { price: 4, charge: 4, pack: 4, notify: 4 } },
}).start(guard, {
  onEvent(event) {
    note("told", event.kind);
    if (event.kind !== "completed") return;
    if (event.node === "price" && fault === "acknowledges-before-dispatch") acknowledge(event.trace);
    reach(event.node, "marked");
  },
});

await pipeline.idle();
await pipeline.close();
await guard.close();
await store.close();
process.disconnect();
