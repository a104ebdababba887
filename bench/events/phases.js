/** The phases of a run, in this order: the second delivers the messages of the first again. */

export const PHASES = /** @type {const} */ ([
  { name: "first", title: "delivered for the first time" },
  { name: "again", title: "delivered again" },
]);

/** @typedef {typeof PHASES[number]} Phase */
