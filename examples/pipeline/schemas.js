/** The schemas of the orders network, as functions. A Standard Schema of any library works too. */

/** @typedef {{ request_id: string, customer: string, card: string, items: { price: number, count: number }[] }} Order */
/** @typedef {Order & { total: number }} Priced */
/** @typedef {{ request_id: string, receipt: string, total: number }} Receipt */

/** @param {Order} payload */
export const order = (payload) => typeof payload.request_id === "string" && Array.isArray(payload.items);

/** @param {Priced} payload */
export const priced = (payload) => order(payload) && Number.isInteger(payload.total);

/** @param {Receipt} payload */
export const receipt = (payload) => typeof payload.receipt === "string";
