/** What the suites of the stores share: one guarded operation, first called and then replayed. */
import { OUTCOME_BYTES, REQUEST_BYTES } from "../payload.js";
import { formatCount } from "../report.js";

/** @typedef {import("../suites.js").Library} Library */

export const WITH_FINGERPRINT = [
  { name: "first", title: "first call, fingerprint", hasFingerprint: true },
  { name: "replay", title: "replay, fingerprint", hasFingerprint: true },
];
export const WITHOUT_FINGERPRINT = [
  { name: "first", title: "first call, none" },
  { name: "replay", title: "replay, none" },
];

/**
 * @param {Pick<import("../suites.js").Suite, "name" | "title" | "tables" | "profileNote">} own
 * @returns {import("../suites.js").Suite}
 */
export function storeSuite(own) {
  const hasServer = own.tables.some(({ servers }) => Object.keys(servers).length > 0);
  return {
    ...own,
    script: "measure.js",
    operation: "operation",
    peer: "the best peer",
    kept: "kept key, its outcome included",
    phases: [...WITH_FINGERPRINT, ...WITHOUT_FINGERPRINT],
    quick: { runs: 2, count: 2_000, warmup: 1_000, alone: 200 },
    intro: "The ratio compares nevertwice with the best peer.",
    method: ({ runs, count, laps = 1, warmup, inFlight, alone = 0 }) => [
      `${inFlight} operations in flight, ${REQUEST_BYTES} bytes of request, ${formatCount(OUTCOME_BYTES)} bytes of outcome; ${formatCount(count)} first calls and ${formatCount(count * laps)} replays a run, after a warm-up of ${formatCount(warmup)} keys; ${formatCount(alone)} first calls and as many replays alone, one after another; ${runs} runs.${hasServer ? " The server runs on the same computer and is emptied before each run." : ""} The work itself costs nothing, so this is what the guard adds. A replay gets new objects, as a retry does.`,
      `Every run checks that the work ran once for each key, that each answer was right, that a key reused for another request was refused (with fingerprint), and that ${inFlight} concurrent callers of one key ran the work once.`,
      "The peers do not promise the same. Only nevertwice renews its lease while the work runs, gives each claim a fence, tells a late writer that it lost, limits the time of every call to the store, and gives the first caller the value that a replay would give.",
    ],
  };
}

/**
 * @param {readonly string[]} drivers
 * @param {string} store
 * @returns {Library}
 */
export function nevertwiceOn(drivers, store) {
  return {
    name: "nevertwice",
    file: "nevertwice",
    packages: ["nevertwice", ...drivers],
    settings: `${store}, every policy at its default: retention 24 h, lease 30 s, renewed while the work runs`,
    withFingerprint: "`guard.run({ operation, key, fingerprint: body }, work)`, SHA-256",
    withoutFingerprint: "`guard.run({ operation, key }, work)`",
  };
}

/**
 * @param {readonly string[]} drivers
 * @param {string} store
 * @returns {Library}
 */
export function steadykeyOn(drivers, store) {
  return {
    name: "steadykey",
    file: "steadykey",
    packages: ["steadykey", ...drivers],
    settings: `${store}, \`defaultTtlSeconds\` 24 h, else its defaults: lease 30 s, not renewed`,
    withFingerprint: "`execute(body, work, { idempotencyKey })`, SHA-256, its default",
    withoutFingerprint:
      "it always hashes its payload, so it is given `null` and a `hashFn` that hashes nothing",
  };
}

/**
 * @param {string} store
 * @param {string} settings
 * @returns {Library}
 */
export function nodeIdempotencyOn(store, settings) {
  return {
    name: "@node-idempotency/core",
    file: "node-idempotency",
    packages: ["@node-idempotency/core", `@node-idempotency/storage-adapter-${store}`],
    settings: `${settings}, \`cacheTTLMS\` 24 h, duplicates wait; it has no lease`,
    withFingerprint: "`onRequest`, work, `onResponse`; it hashes the request's `body`, BLAKE2s",
    withoutFingerprint: "the same with a request that has no `body`, which it does not hash",
  };
}

/**
 * @param {string} store
 * @param {string} driver
 * @param {string} how
 * @returns {Library}
 */
export function rawLoopOn(store, driver, how) {
  return {
    name: "raw loop",
    file: `raw-${store}`,
    packages: [driver],
    settings: `${how}; no engine, no lease to renew, no time limit`,
    withFingerprint: "one SHA-256 over `JSON.stringify(body)`",
    withoutFingerprint: "none",
  };
}
