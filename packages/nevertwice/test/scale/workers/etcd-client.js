/**
 * One process that writes new keys to etcd by one of the clients under trial, until it is told to end. Each write is the
 * transaction of a claim: it inserts a key that does not exist, and otherwise reads it. A write without an answer is repeated.
 */
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {object} Options
 * @property {"etcd3" | "gateway" | "shared"} client
 * @property {string} folder where etcd3 is installed
 * @property {readonly string[]} endpoints
 * @property {string} prefix
 * @property {number} lanes how many writes are under way at once
 */

/**
 * @typedef {object} ClientReport
 * @property {"report"} kind
 * @property {readonly string[]} keys that were acknowledged
 * @property {readonly number[]} tookMs each of them, repetitions included
 * @property {number} failed tries that the client reported as failed
 * @property {number} repeated writes whose repetition found what an earlier try had written
 * @property {number} longestGapMs the longest time in which no write was acknowledged
 * @property {number} cpuMs of this process
 * @property {number} lastedMs
 */

/** @type {Options} */
const { client, folder, endpoints, prefix, lanes } = JSON.parse(process.argv[2] ?? "{}");
/** As long as the store waits for one member. */
const MEMBER_TIMEOUT_MS = 1_500;
const RECORD = JSON.stringify({ state: "pending", number: 1, leases: 1, parts: "x".repeat(200) });

/** @typedef {(key: string, value: string) => Promise<string | undefined>} Insert resolves to the value that was there before */

/** @returns {Insert} */
function byEtcd3() {
  const { Etcd3 } = createRequire(`${folder}/`)("etcd3");
  const etcd = new Etcd3({
    hosts: [...endpoints],
    // Without a deadline a call to a member that is cut off waits for as long as the member does.
    defaultCallOptions: () => ({ deadline: Date.now() + MEMBER_TIMEOUT_MS }),
  });
  return async (key, value) => {
    const answer = await etcd
      .if(key, "Mod", "==", 0)
      .then(etcd.put(key).value(value))
      .else(etcd.get(key))
      .commit();
    return answer.succeeded ? undefined : answer.responses[0].response_range.kvs[0].value.toString();
  };
}

/**
 * @param {boolean} isShared whether transactions that are due at once share a request, as in the store
 * @returns {Promise<Insert>}
 */
async function byGateway(isShared) {
  const { createGateway } = await import("../../../build/stores/etcd/gateway.js");
  const { createSharedWrites } = await import("../../../build/stores/etcd/shared-writes.js");
  const tx = await import("../../../build/stores/etcd/transactions.js");
  const gateway = createGateway({
    endpoints,
    fetch,
    credentials: undefined,
    memberTimeoutMs: MEMBER_TIMEOUT_MS,
    timeoutMs: 5_000,
  });
  const share = createSharedWrites(gateway);
  return async (key, value) => {
    const transaction = {
      compare: [tx.revisionIs(key, tx.ABSENT)],
      onSuccess: [tx.put(key, value)],
      onFailure: [tx.get(key)],
    };
    if (isShared) {
      const { hasSucceeded, found } = await share({ id: key, transaction, size: value.length });
      return hasSucceeded ? undefined : found[0]?.value;
    }
    const { body } = await gateway.call("kv/txn", tx.transaction(transaction));
    const { hasSucceeded, found } = tx.readAnswer(body);
    return hasSucceeded ? undefined : found[0]?.[0]?.value;
  };
}

const insert = client === "etcd3" ? byEtcd3() : await byGateway(client === "shared");
const keys = /** @type {string[]} */ ([]);
const tookMs = /** @type {number[]} */ ([]);
let failed = 0;
let repeated = 0;
let longestGapMs = 0;
let acknowledgedAt = 0;
let next = 0;
let isOver = false;

async function lane() {
  while (!isOver) {
    const key = `${prefix}${next++}`;
    const startedAt = performance.now();
    for (let isWritten = false; !isWritten && !isOver; ) {
      try {
        const before = await insert(key, RECORD);
        if (before !== undefined) repeated++;
        isWritten = true;
      } catch {
        failed++;
        await sleep(20);
      }
    }
    if (isOver) return;
    const at = performance.now();
    longestGapMs = Math.max(longestGapMs, at - acknowledgedAt);
    acknowledgedAt = at;
    keys.push(key);
    tookMs.push(at - startedAt);
  }
}

// The connection is made before the time is taken.
await insert(`${prefix}first`, RECORD);
await new Promise((begin) => {
  process.on("message", (message) => {
    if (message === "begin") begin(undefined);
    else isOver = true;
  });
  process.send?.({ kind: "ready" });
});
const startedAt = performance.now();
const cpuBefore = process.cpuUsage();
acknowledgedAt = startedAt;
await Promise.all(Array.from({ length: lanes }, lane));
const { user, system } = process.cpuUsage(cpuBefore);
/** @type {ClientReport} */
const report = {
  kind: "report",
  keys,
  tookMs,
  failed,
  repeated,
  longestGapMs,
  cpuMs: (user + system) / 1_000,
  lastedMs: performance.now() - startedAt,
};
process.send?.(report, () => process.exit(0));
