/**
 * A payment API on Express: twenty clicks make one charge, a declined card stays declined, an outage of the provider may
 * be retried, and nobody is answered with another customer's receipt.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import express from "express";
import { createGuard } from "nevertwice";
import { idempotency } from "nevertwice/http/express";
import { memoryStore } from "nevertwice/stores/memory";

/** The payment provider, which knows idempotency keys as well. It may be away. */
const provider = {
  isAway: false,
  /** @type {string[]} the key of every request that it was asked */
  asked: [],
  /** @type {Map<string, { receipt: string, amount: number }>} */
  charges: new Map(),

  /**
   * @param {{ card: string, amount: number }} payment
   * @param {string} key
   */
  async charge({ card, amount }, key) {
    provider.asked.push(key);
    if (provider.isAway) throw new Error("the provider does not answer");
    if (card === "no-funds") return "declined";
    const receipt = provider.charges.get(key) ?? { receipt: `receipt-${provider.charges.size + 1}`, amount };
    provider.charges.set(key, receipt);
    return receipt;
  },
};

/** @typedef {express.Request & { customer?: string }} CustomerRequest */

const CUSTOMERS = new Map([
  ["Bearer alice-secret", "alice"],
  ["Bearer bob-secret", "bob"],
]);

/**
 * @param {CustomerRequest} req
 * @param {express.Response} res
 * @param {express.NextFunction} next
 */
function authenticate(req, res, next) {
  const customer = CUSTOMERS.get(req.get("authorization") ?? "");
  if (customer === undefined) return void res.sendStatus(401);
  req.customer = customer;
  next();
}

const guard = createGuard({ store: memoryStore(), namespace: "shop" });
const payOnce = idempotency(guard, {
  // Whose key it is comes from whoever authenticated, never from the request's own word.
  scope: (/** @type {CustomerRequest} */ req) => req.customer,
  required: true,
  // A click that comes while the first one is under way waits for its answer; by default it is told to come back.
  onPending: "wait",
});

const app = express();
app.use(authenticate);
app.post("/payments", payOnce, express.json(), async (req, res) => {
  // The same for every attempt: if we crash after the charge, the provider knows the next one for a repetition.
  const key = req.idempotency?.deriveKey("provider") ?? "";
  try {
    const answer = await provider.charge(req.body, key);
    if (answer === "declined") res.status(402).json({ error: "the card was declined" });
    else res.status(201).location(`/payments/${answer.receipt}`).json(answer);
  } catch {
    res.status(503).json({ error: "try again" });
  }
});

const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const url = `http://127.0.0.1:${address.port}/payments`;

/**
 * @param {{ key?: string, card?: string, amount?: number, as?: string }} payment
 */
async function pay({ key, card = "visa", amount = 4_200, as = "alice" }) {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      authorization: `Bearer ${as}-secret`,
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: JSON.stringify({ card, amount }),
  });
  return {
    status: response.status,
    isReplayed: response.headers.get("idempotent-replayed") === "true",
    location: response.headers.get("location"),
    body: /** @type {Record<string, unknown>} */ (await response.json()),
  };
}

const keyless = await pay({});
assert.equal(keyless.status, 400);
console.log(`no key: ${keyless.status} ${keyless.body.code}`);

// An impatient customer.
const clicks = await Promise.all(Array.from({ length: 20 }, () => pay({ key: "order-1" })));
assert.ok(clicks.every(({ status }) => status === 201));
const receipts = new Set(clicks.map(({ body }) => body.receipt));
assert.equal(provider.asked.length, 1);
console.log(`20 clicks: ${receipts.size} receipt, ${provider.charges.size} charge`);

// An app that was closed before it saw the answer asks again, with the same key.
const retry = await pay({ key: "order-1" });
assert.deepEqual(retry, { ...clicks[0], isReplayed: true });
assert.equal(provider.asked.length, 1);
console.log(`retry: ${retry.status} ${retry.location}, replayed`);

// A key stands for one request. For another amount it is a mistake, and neither charged nor answered with that receipt.
const reused = await pay({ key: "order-1", amount: 9_900 });
assert.equal(reused.status, 422);
console.log(`another amount: ${reused.status} ${reused.body.code}`);

// Two customers may choose the same key.
const bob = await pay({ key: "order-1", as: "bob" });
assert.notEqual(bob.body.receipt, retry.body.receipt);
console.log(`bob with the same key: ${bob.status}, a charge of his own`);

// That a card was declined is an answer: it is kept, and the provider is not asked again.
const declined = await pay({ key: "order-2", card: "no-funds" });
const asked = provider.asked.length;
const still = await pay({ key: "order-2", card: "no-funds" });
assert.equal(provider.asked.length, asked);
console.log(`declined: ${declined.status}, and on retry ${still.status} without asking the provider`);

// That the provider was away is none: the key is free again, and the retry does what the first try could not.
provider.isAway = true;
const away = await pay({ key: "order-3" });
provider.isAway = false;
const back = await pay({ key: "order-3" });
assert.equal(provider.asked.at(-1), provider.asked.at(-2));
console.log(`outage: ${away.status}, then ${back.status}; the provider saw one key for both`);

server.close();
await guard.close();
