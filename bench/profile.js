/** Reduces a V8 CPU profile to self time by function and file. */

/** @typedef {{ functionName: string, url: string, lineNumber: number }} CallFrame */

/**
 * As the inspector hands it out: `samples` are ids of nodes, `timeDeltas` the microseconds before each.
 *
 * @typedef {object} Profile
 * @property {readonly { id: number, callFrame: CallFrame }[]} nodes
 * @property {readonly number[]} samples
 * @property {readonly number[]} timeDeltas
 */

/**
 * The `limit` costliest functions, as shares of the time without overhead. `root` is cut off the file names, so that a
 * report does not name a folder of the machine.
 *
 * @param {Profile} profile
 * @param {{ root: string, limit: number }} options
 */
export function costliest({ nodes, samples, timeDeltas }, { root, limit }) {
  /** @type {Map<number, number>} */
  const microsecondsOf = new Map();
  for (const [i, id] of samples.entries())
    microsecondsOf.set(id, (microsecondsOf.get(id) ?? 0) + (timeDeltas[i] ?? 0));

  /** @type {Map<string, number>} */
  const totals = new Map();
  let whole = 0;
  for (const { id, callFrame } of nodes) {
    const microseconds = microsecondsOf.get(id) ?? 0;
    if (microseconds === 0 || isOverhead(callFrame)) continue;
    whole += microseconds;
    const place = placeOf(callFrame, root);
    totals.set(place, (totals.get(place) ?? 0) + microseconds);
  }
  return [...totals]
    .sort(([, a], [, b]) => b - a)
    .slice(0, limit)
    .map(([place, microseconds]) => ({ place, share: microseconds / whole }));
}

/**
 * The share of the time in which the thread waited for the store.
 *
 * @param {Profile} profile
 */
export function waitingShare({ nodes, samples, timeDeltas }) {
  const idle = new Set(nodes.filter(({ callFrame }) => isIdle(callFrame)).map(({ id }) => id));
  let waited = 0;
  let whole = 0;
  for (const [i, id] of samples.entries()) {
    const microseconds = timeDeltas[i] ?? 0;
    whole += microseconds;
    if (idle.has(id)) waited += microseconds;
  }
  return waited / whole;
}

/** @param {CallFrame} frame */
function isIdle({ functionName }) {
  return functionName === "(idle)";
}

/**
 * Overhead: idle time, and the inspector's own call that starts and ends the profile.
 *
 * @param {CallFrame} frame
 */
function isOverhead(frame) {
  return isIdle(frame) || (frame.functionName === "dispatch" && frame.url === "");
}

/**
 * "claim (packages/nevertwice/dist/stores/memory.js:62)", "setTimeout (node:timers:141)", "(garbage collector)".
 *
 * @param {CallFrame} frame
 * @param {string} root
 */
function placeOf({ functionName, url, lineNumber }, root) {
  const name = functionName || "(anonymous)";
  if (url === "") return name;
  const file = url.replace(/^file:\/\//, "").replace(root, "");
  return `${name} (${file}:${lineNumber + 1})`;
}
