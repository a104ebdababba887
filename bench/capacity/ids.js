/**
 * What the order of ids means to Postgres, in its own process: ids that are hashes, as the store has them, and ids that begin
 * with the time, as UUIDv7 keys could give. It fills the table with both in turn through the store's own steps, and sends
 * back the bytes of the index on ids, and of the log, for each first call. The calls that count begin right after a
 * checkpoint, so that nearly every page they change is new to the log, as it is in a table of very many keys.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { openStore } from "nevertwice/stores/open";
import pg from "pg";
import { openDatabase } from "../databases/postgres.js";
import { median } from "../report.js";
import { inLanes } from "./lanes.js";

const { url, keys, inFlight, calls, rounds, outcomeBytes } = JSON.parse(process.argv[2]);
const SCOPES = 1_000;
const RETENTION_MS = 86_400_000;
/** Of a SHA-256 in hexadecimal digits. The time of a UUIDv7 is twelve of them. */
const ID_DIGITS = 64;
const TIME_DIGITS = 12;
const INDEX = `SELECT pg_relation_size(indexrelid) AS bytes FROM pg_index
  WHERE indrelid = 'nevertwice_records'::regclass AND indisprimary`;

let last = 0;
const KINDS = {
  hashed: () => createHash("sha256").update(randomUUID()).digest("hex"),
  ordered: () => {
    last = Math.max(last + 1, Date.now());
    const time = last.toString(16).padStart(TIME_DIGITS, "0");
    return (
      time +
      randomBytes(ID_DIGITS)
        .toString("hex")
        .slice(0, ID_DIGITS - TIME_DIGITS)
    );
  },
};

const found = {};
for (const [kind, toId] of Object.entries(KINDS)) found[kind] = await measured(toId);
process.send(found);

async function measured(toId) {
  const database = await openDatabase({ url });
  const admin = new pg.Client(url);
  await admin.connect();
  // The records that only fill the table need not be durable.
  await withStore("synchronous_commit=off", (store) => firstCalls(store, toId, keys));
  const [{ bytes }] = (await admin.query(INDEX)).rows;
  const logged = async (compression) => {
    const each = [];
    for (let round = 0; round < rounds; round++)
      each.push(
        await withStore(`wal_compression=${compression}`, async (store) => {
          // It connects before anything is counted.
          await firstCalls(store, toId, inFlight);
          await admin.query("CHECKPOINT");
          const before = await database.logBytes();
          await firstCalls(store, toId, calls);
          return ((await database.logBytes()) - before) / calls;
        }),
      );
    return median(each);
  };
  const found = {
    index: Number(bytes) / keys,
    log: await logged("off"),
    compressedLog: await logged("on"),
  };
  await admin.end();
  await database.close();
  return found;
}

/** `setting` is one of its connections. */
async function withStore(setting, use) {
  const store = await openStore(`${url}?options=${encodeURIComponent(`-c ${setting}`)}`);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** Each with an outcome of its own, since a page with the same outcome many times compresses too well. */
async function firstCalls(store, toId, number) {
  await inLanes({ lanes: inFlight, calls: number }, async (i) => {
    const id = toId();
    const token = randomUUID();
    const parts = { namespace: "", scope: `customer-${i % SCOPES}`, operation: "charge", key: randomUUID() };
    await store.claim({ id, parts, token, leaseMs: 30_000, retentionMs: RETENTION_MS, hold: false });
    const outcome = randomBytes(outcomeBytes).toString("base64url").slice(0, outcomeBytes);
    await store.complete({ id, token, outcome, retentionMs: RETENTION_MS });
  });
}
