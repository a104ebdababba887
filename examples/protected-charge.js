/**
 * A charge behind a retry and a circuit breaker, guarded once for all its tries. The provider now and then takes the money
 * and fails to say so; it knows its own keys, and so it takes it once. Needs `npm install cockatiel`.
 */
import assert from "node:assert/strict";
import {
  ConsecutiveBreaker,
  ConstantBackoff,
  circuitBreaker,
  handleAll,
  isBrokenCircuitError,
  retry,
  wrap,
} from "cockatiel";
import { createGuard } from "nevertwice";
import { protect, replay, tryProtect } from "nevertwice/protect";
import { memoryStore } from "nevertwice/stores/memory";

/** The provider: one charge per key. Its plan says what goes wrong, call by call. */
const provider = {
  /** @type {("refuses" | "charges, then fails" | "works")[]} */
  plan: [],
  calls: 0,
  /** @type {Map<string, { receipt: string, amount: number }>} */
  charges: new Map(),
  /**
   * @param {number} amount
   * @param {string} key
   */
  async charge(amount, key) {
    provider.calls++;
    const turn = provider.plan.shift() ?? "works";
    if (turn === "refuses") throw new Error("503 from the provider");
    const charge = provider.charges.get(key) ?? { receipt: `receipt-${provider.charges.size + 1}`, amount };
    provider.charges.set(key, charge);
    if (turn === "charges, then fails") throw new Error("the connection broke");
    return charge;
  },
};

const guard = createGuard({ store: memoryStore() });
const breaker = circuitBreaker(handleAll, { halfOpenAfter: 60_000, breaker: new ConsecutiveBreaker(3) });
const policy = wrap(retry(handleAll, { maxAttempts: 3, backoff: new ConstantBackoff(1) }), breaker);
/** @type {import("nevertwice/protect").DeadLetter[]} */
const letters = [];

/** @param {{ id: string, amount: number }} order */
const optionsFor = (order) => ({
  operation: "charge",
  key: /** @type {const} */ ("id"),
  context: order,
  fingerprint: { amount: order.amount },
  policy,
  deadLetters: (/** @type {import("nevertwice/protect").DeadLetter} */ entry) => letters.push(entry),
});

/**
 * @param {{ amount: number }} order
 * @returns {(attempt: import("nevertwice").Attempt) => Promise<{ receipt: string, amount: number }>}
 */
const chargeOf = (order) => (attempt) => provider.charge(order.amount, attempt.deriveKey("psp"));

// The first try fails, the second takes the money without saying so, the third gets the receipt of the second.
const order = { id: "order-1", amount: 4_200 };
provider.plan = ["refuses", "charges, then fails"];
const first = await tryProtect(guard, optionsFor(order), chargeOf(order));
assert(first.outcome === "ran");
assert.equal(provider.charges.size, 1);
console.log(`${first.outcome}: ${first.value.receipt} after ${first.attempts} tries, charged once`);

// The provider goes down: the retries end at the open breaker, the order becomes a dead letter, its key is free.
const other = { id: "order-2", amount: 1_000 };
provider.plan = ["refuses", "refuses", "refuses"];
await assert.rejects(protect(guard, optionsFor(other), chargeOf(other)), isBrokenCircuitError);
assert.equal(letters.length, 1);
console.log(`failed: ${letters[0]?.key} is a dead letter, and the breaker is open`);

// An open breaker is no reason to leave a duplicate without its receipt.
const calls = provider.calls;
const again = await protect(guard, optionsFor(order), chargeOf(order));
assert.deepEqual(again, first.value);
assert.equal(provider.calls, calls);
console.log(`replayed through the open breaker: ${again.receipt}`);

// Two operators replay the dead letter at the same time, without the breaker: it is charged once.
provider.plan = [];
const [letter] = letters;
assert(letter !== undefined);
const answers = await Promise.all([
  replay(guard, letter, chargeOf(other)),
  replay(guard, letter, chargeOf(other)),
]);
assert.equal(provider.charges.size, 2);
console.log(`two operators: ${answers.map(({ outcome }) => outcome).join(" and ")}, charged once`);

await guard.close();
