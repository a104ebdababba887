/**
 * The code of the orders network. Each node has a core that decides without side effects, and a shell that carries out the
 * decision.
 */

/** @typedef {import("./schemas.js").Order} Order */
/** @typedef {import("./schemas.js").Priced} Priced */
/** @typedef {import("nevertwice/pipeline").ShellContext} ShellContext */

/** The bank: the amounts that it charged, by idempotency key. */
export const bank = { busy: false, charges: /** @type {Map<string, number>} */ (new Map()), calls: 0 };

/** The list of a reviewer. */
export const reviews = /** @type {string[]} */ ([]);

/** @param {Order} order */
export function price(order) {
  return { ...order, total: order.items.reduce((sum, item) => sum + item.price * item.count, 0) };
}

/** @type {(priced: Priced, context: ShellContext) => import("nevertwice/pipeline").Emit} */
export const passPrice = (priced, { emit }) => emit("priced", priced);

/** @param {Priced} priced */
export const sizeOf = (priced) => ({ port: priced.total > 100_000 ? "large" : "small", priced });

/** @type {(decided: ReturnType<typeof sizeOf>, context: ShellContext) => import("nevertwice/pipeline").Emit} */
export const route = ({ port, priced }, { emit }) => emit(port, priced);

/** @param {Priced} priced */
export const chargeFor = ({ request_id, total }) => ({ request_id, total });

/**
 * @param {ReturnType<typeof chargeFor>} decided
 * @param {ShellContext} context
 */
export async function charge({ request_id, total }, { deriveKey, effects, emit, reply }) {
  bank.calls += 1;
  if (bank.busy) {
    bank.busy = false;
    throw Object.assign(new Error("the bank is busy"), { tag: "bank-busy" });
  }
  const key = deriveKey("bank");
  bank.charges.set(key, total);
  const receipt = { request_id, receipt: `receipt-${bank.charges.size}`, total, at: effects.time.now() };
  return [emit("charged", receipt), reply(receipt)];
}

/** @param {Priced} priced */
export const reasonFor = ({ request_id, total }) => `${request_id}: ${total} is a lot`;

/** @param {string} reason */
export function askPerson(reason) {
  reviews.push(reason);
  return undefined;
}
