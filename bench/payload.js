/** The operations that every library gets: a key, a request of 200 bytes and an outcome of 1,000 bytes for each. */
import { randomUUID } from "node:crypto";

export const REQUEST_BYTES = 200;
export const OUTCOME_BYTES = 1_000;

/**
 * Every key, request and outcome is different.
 *
 * @param {number} count
 */
export function makeOperations(count) {
  return Array.from({ length: count }, (_, i) => {
    const order = `order-${String(i).padStart(9, "0")}`;
    return { key: received(randomUUID()), body: requestOf(order), outcome: outcomeOf(order) };
  });
}

/**
 * A retry arrives as a new request: equal bytes in other objects.
 *
 * @param {ReturnType<typeof makeOperations>[number]} operation
 */
export function retryOf({ key, body, outcome }) {
  return { key: received(key), body: structuredClone(body), outcome };
}

/**
 * The text in one piece, as it comes from a socket. A text that was concatenated in this process is a tree of pieces, and
 * the first library that reads it would pay for joining them.
 *
 * @param {string} text
 */
function received(text) {
  return Buffer.from(text).toString("latin1");
}

/** @param {string} order */
function requestOf(order) {
  const request = {
    order,
    amount: 4_200,
    currency: "EUR",
    customer: { id: "customer-4711", country: "AT" },
    items: [{ sku: "tea-black-500", quantity: 2, price: 2_100 }],
    note: "",
  };
  return padded(request, REQUEST_BYTES);
}

/** @param {string} order */
function outcomeOf(order) {
  const outcome = {
    order,
    status: "succeeded",
    amount: 4_200,
    currency: "EUR",
    isCaptured: true,
    createdAt: "2026-01-15T10:30:00.000Z",
    card: { brand: "visa", lastFour: "4242", expires: "2029-12", country: "AT" },
    customer: { id: "customer-4711", name: "Ada Example", email: "ada@example.com" },
    lines: Array.from({ length: 5 }, (_, line) => ({
      sku: `tea-black-50${line}`,
      title: "Black tea, loose, in a tin",
      quantity: 2,
      price: 420,
      tax: 70,
      refunded: null,
    })),
    note: "",
  };
  return padded(outcome, OUTCOME_BYTES);
}

/**
 * @template {object} T
 * @param {T} value
 * @param {number} bytes
 */
function padded(value, bytes) {
  const missing = bytes - JSON.stringify(value).length;
  if (missing < 0) throw new Error(`the payload has ${-missing} bytes too many`);
  return { ...value, note: "x".repeat(missing) };
}
