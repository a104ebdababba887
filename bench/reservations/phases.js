/** The phases of a run, in this order: each confirmation is of a hold that was placed just before. */

export const PHASES = /** @type {const} */ ([
  { name: "holdOwn", action: "placeHold", resource: "own", title: "hold, each on a resource of its own" },
  { name: "confirmOwn", action: "confirm", resource: "own", title: "confirm, each on a resource of its own" },
  { name: "holdPool", action: "placeHold", resource: "pool", title: "hold, all on one pool" },
  { name: "confirmPool", action: "confirm", resource: "pool", title: "confirm, all on one pool" },
]);

/** @typedef {typeof PHASES[number]} Phase */
