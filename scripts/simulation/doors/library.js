/** The doors and what they need, from a build of the library: the sound one, or a copy with a bug in it. */

/**
 * @typedef {object} Library
 * @property {typeof import("../../../packages/nevertwice/src/testing/random.ts").seededRandom} seededRandom
 * @property {typeof import("../../../packages/nevertwice/src/stores/memory.ts").memoryStore} memoryStore
 * @property {typeof import("../../../packages/nevertwice/src/core/engine.ts").createEngine} createEngine
 * @property {typeof import("../../../packages/nevertwice/src/core/errors.ts").NevertwiceError} NevertwiceError
 * @property {typeof import("../../../packages/nevertwice/src/core/clock.ts").systemTimer} systemTimer
 * @property {typeof import("../../../packages/nevertwice/src/http/fetch.ts").withIdempotency} withIdempotency
 * @property {typeof import("../../../packages/nevertwice/src/http/fetch.ts").attemptOf} attemptOf
 * @property {typeof import("../../../packages/nevertwice/src/events/consumer.ts").consumer} consumer
 * @property {typeof import("../../../packages/nevertwice/src/claims/index.ts").createClaims} createClaims
 * @property {typeof import("../../../packages/nevertwice/src/saga/saga.ts").saga} saga
 * @property {typeof import("../../../packages/nevertwice/src/pipeline/pipeline.ts").startPipeline} startPipeline
 * @property {typeof import("../../../packages/nevertwice/src/outbox/sqlite/connection.ts").connect} connectOutbox
 * @property {typeof import("../../../packages/nevertwice/src/outbox/sqlite/connection.ts").createInsert} createInsert
 * @property {typeof import("../../../packages/nevertwice/src/outbox/relay.ts").createRelay} createRelay
 * @property {typeof import("../../../packages/nevertwice/src/outbox/relay-options.ts").toRelaySettings} toRelaySettings
 * @property {typeof import("../../../packages/nevertwice/src/outbox/verdict.ts").permanent} permanent
 */

/** The modules, and what is taken from each. */
export const MODULES = {
  "testing/random.js": ["seededRandom"],
  "stores/memory.js": ["memoryStore"],
  "core/engine.js": ["createEngine"],
  "core/errors.js": ["NevertwiceError"],
  "core/clock.js": ["systemTimer"],
  "http/fetch.js": ["withIdempotency", "attemptOf"],
  "events/consumer.js": ["consumer"],
  "claims/index.js": ["createClaims"],
  "saga/saga.js": ["saga"],
  "pipeline/pipeline.js": ["startPipeline"],
  "outbox/sqlite/connection.js": ["connect as connectOutbox", "createInsert"],
  "outbox/relay.js": ["createRelay"],
  "outbox/relay-options.js": ["toRelaySettings"],
  "outbox/verdict.js": ["permanent"],
};

/**
 * @param {string} build the URL of its folder
 * @returns {Promise<Library>}
 */
export async function loadLibrary(build) {
  /** @type {Record<string, unknown>} */
  const library = {};
  for (const [file, names] of Object.entries(MODULES)) {
    const module = await import(new URL(file, build).href);
    for (const text of names) {
      const [name = "", alias = name] = text.split(" as ");
      library[alias] = module[name];
    }
  }
  return /** @type {any} */ (library);
}
