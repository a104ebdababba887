/** Checks that need nothing of the platform: not every runtime has `node:assert`. */

/**
 * Throws unless the two values are equal in depth. `what` begins the message.
 *
 * @param {unknown} actual
 * @param {unknown} expected
 * @param {string} [what]
 */
export function same(actual, expected, what = "a value") {
  if (isEqual(actual, expected)) return;
  throw new Error(`${what} is ${shown(actual)}, not ${shown(expected)}`);
}

/**
 * @param {Promise<unknown>} call must reject with an error that `fits`
 * @param {(error: unknown) => boolean} fits
 */
export async function rejects(call, fits) {
  const error = await call.then(
    () => undefined,
    (thrown) => thrown ?? new Error("no reason"),
  );
  if (error === undefined) throw new Error("it did not reject");
  if (!fits(error)) throw new Error(`it rejected with ${String(error)}`, { cause: error });
}

/**
 * @param {unknown} a
 * @param {unknown} b
 * @returns {boolean}
 */
function isEqual(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (a instanceof Date && b instanceof Date) return a.getTime() === b.getTime();
  const [names, others] = [Object.keys(a), Object.keys(b)];
  if (names.length !== others.length || Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = /** @type {Record<string, unknown>[]} */ ([a, b]);
  return names.every((name) => Object.hasOwn(b, name) && isEqual(left?.[name], right?.[name]));
}

/** @param {unknown} value */
function shown(value) {
  return JSON.stringify(value, (_, part) => (typeof part === "bigint" ? `${part}n` : part));
}
