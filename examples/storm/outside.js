/** What is outside of the guard's reach: a payment provider and a ledger. No guard can undo what was done here. */

/**
 * Charges cards. Like any good provider it takes an idempotency key, and answers a key it knows with the receipt it has.
 */
export function createProvider() {
  /** @type {Map<string, { receipt: string, order: string, amount: number }>} */
  const charges = new Map();
  let requests = 0;

  return {
    /** @param {{ key: string, order: string, amount: number }} request */
    charge({ key, order, amount }) {
      requests++;
      const known = charges.get(key);
      if (known !== undefined) return known.receipt;
      const receipt = `receipt-${charges.size + 1}`;
      charges.set(key, { receipt, order, amount });
      return receipt;
    },
    /** @param {string} order */
    chargesOf: (order) => [...charges.values()].filter((charge) => charge.order === order),
    /** How often it was asked since this was last called. */
    countRequests() {
      const count = requests;
      requests = 0;
      return count;
    },
  };
}

/** @typedef {{ order: string, fence: number, number: number, by: string, text: string }} Entry */

/** Takes entries about an order, and refuses those of an attempt that has been overtaken: its fence is too low. */
export function createLedger() {
  /** @type {(Entry & { isRefused: boolean })[]} */
  const entries = [];

  return {
    /** @param {Entry} entry */
    post(entry) {
      const isRefused = entries.some(({ order, fence }) => order === entry.order && fence > entry.fence);
      entries.push({ ...entry, isRefused });
      return !isRefused;
    },
    /** @param {string} order */
    entriesOf: (order) => entries.filter((entry) => entry.order === order),
  };
}
