/** Code that the manifests here may name. */

/** @param {unknown} payload */
export const decide = (payload) => payload;

/**
 * @param {unknown} payload
 * @param {{ emit(port: string, payload: unknown): unknown }} context
 */
export const act = (payload, { emit }) => emit("out", payload);

/** @param {unknown} payload */
export const order = (payload) => typeof payload === "object";

export const notCode = 42;
