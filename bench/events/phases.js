/** What is delivered to whoever consumes, in this order: what comes again is what came before. */

export const PHASES = /** @type {const} */ ([
  { name: "first", title: "delivered for the first time" },
  { name: "again", title: "delivered again" },
]);

/** @typedef {typeof PHASES[number]} Phase */
