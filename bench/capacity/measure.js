/**
 * One run in its own process: first calls and replays with outcomes of one size on one store, and the purge of as many
 * records. It sends back what the store keeps and logs, and the processor time of client and server.
 */
import { equal } from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createGuard } from "nevertwice";
import { openStore } from "nevertwice/stores/open";
import { inLanes } from "./lanes.js";

const { store: name, url, count, warmup, inFlight, outcomeBytes, sizesOnly } = JSON.parse(process.argv[2]);
const { openDatabase } = await import(`../databases/${name}.js`);
/** Long enough for a claim on a busy machine. */
const OLD_LEASE_MS = 3_000;
const MOST_PURGES = 100;
/** The quotes of the JSON text. */
const QUOTES = 2;

await run(warmup, { purges: false });
process.send(await run(count, { purges: !sizesOnly }));

async function run(calls, { purges }) {
  const database = await openDatabase({ url });
  const store = await openStore(database.storeUrl);
  const guard = createGuard({ store, purgeEveryMs: 0 });
  const call = callWith(guard, inFlight);
  // Connections are opened, and tables are made, before anything is counted.
  await call(inFlight, "warm");

  const before = await sizes(database);
  const first = await timed(database, calls, () => call(calls, "charge"));
  const after = await sizes(database);
  const replay = await timed(database, calls, () => call(calls, "charge"));
  equal(call.works(), inFlight + calls, "the work of a key ran twice");
  const purge = purges && !store.collectsItself ? await purged(database, guard, calls) : undefined;
  await guard.close();
  await store.close();
  await database.close();
  return { ...growth(before, after, calls), first, replay, ...(purge && { purge }) };
}

/** Calls the guard once for each of so many keys. */
function callWith(guard, lanes) {
  // Postgres compresses large values, so the text must be one that cannot be compressed.
  const outcome = randomBytes(outcomeBytes)
    .toString("base64url")
    .slice(0, outcomeBytes - QUOTES);
  let works = 0;
  const call = (calls, operation, options = {}) =>
    inLanes({ lanes, calls }, (i) =>
      guard.run(
        { operation, scope: "customer", key: `order-${String(i).padStart(12, "0")}`, ...options },
        () => {
          works++;
          return outcome;
        },
      ),
    );
  return Object.assign(call, { works: () => works });
}

async function sizes({ bytes, memoryBytes, logBytes }) {
  const kept = await bytes();
  return {
    bytes: kept,
    memory: memoryBytes === bytes ? kept : await memoryBytes?.(),
    log: await logBytes?.(),
  };
}

/** For each key. Without what the database does not tell. */
function growth(before, after, calls) {
  const grown = Object.entries(after).filter(([, bytes]) => bytes !== undefined);
  return Object.fromEntries(grown.map(([what, bytes]) => [what, (bytes - before[what]) / calls]));
}

/** Expired records, as a guard removes them: with the pauses that it makes for claims. */
async function purged(database, guard, calls) {
  await callWith(guard, inFlight)(calls, "old", { retentionMs: 1, leaseMs: OLD_LEASE_MS });
  // Postgres and MySQL purge a record when its first lease and its retention have ended.
  await sleep(OLD_LEASE_MS + 1_000);
  // A guard's pauses do not keep a process alive, and neither does SQLite.
  const alive = setInterval(() => {}, OLD_LEASE_MS);
  const startedAt = performance.now();
  const times = await timed(database, calls, async () => {
    let removed = 0;
    // A purge skips a record that is locked; the next one removes it.
    for (let tries = 0; removed < calls && tries < MOST_PURGES; tries++) removed += await guard.purge();
    equal(removed, calls, "the purges removed another number of records");
  });
  const perSecond = (calls * 1_000) / (performance.now() - startedAt);
  clearInterval(alive);
  return { perSecond, ...times };
}

/** The processor time of each call, in microseconds. */
async function timed(database, calls, work) {
  const serverBefore = await database.serverMicroseconds?.();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  const serverAfter = await database.serverMicroseconds?.();
  return {
    client: (user + system) / calls,
    ...(serverAfter !== undefined && { server: (serverAfter - serverBefore) / calls }),
  };
}
