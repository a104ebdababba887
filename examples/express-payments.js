/**
 * A payment API on Express: twenty clicks make one charge, a declined card stays declined, a request can be retried after
 * an outage of the provider, and no customer gets another customer's receipt.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import express from "express";
import { createGuard } from "nevertwice";
import { idempotency } from "nevertwice/http/express";
import { memoryStore } from "nevertwice/stores/memory";

class NoAnswer extends Error {}

/** The payment provider, which supports idempotency keys as well. It may be unavailable. */
const provider = {
  isAway: false,
  /** @type {string[]} the key of every request */
  asked: [],
  /** @type {Map<string, { receipt: string, amount: number }>} */
  charges: new Map(),

  /**
   * @param {{ card: string, amount: number }} payment
   * @param {string} key
   */
  async charge({ card, amount }, key) {
    provider.asked.push(key);
    if (provider.isAway) throw new NoAnswer("the provider does not answer");
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
  // The owner of a key comes from authentication, never from unverified data in the request.
  scope: (/** @type {CustomerRequest} */ req) => req.customer,
  required: true,
  // A click while the first request runs waits for its answer. By default it would get a 409.
  onPending: "wait",
});

const app = express();
app.use(authenticate);
app.post("/payments", payOnce, express.json(), async (req, res) => {
  // The same on every attempt: if we crash after the charge, the provider recognises the next one as a repetition.
  const key = req.idempotency?.deriveKey("provider") ?? "";
  try {
    const answer = await provider.charge(req.body, key);
    if (answer === "declined") res.status(402).json({ error: "the card was declined" });
    else res.status(201).location(`/payments/${answer.receipt}`).json(answer);
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    // It is unknown whether the card was charged. A status of 500 or more releases our key, and the retry sends the
    // provider the same key.
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

// An app that was closed before it got the answer retries with the same key.
const retry = await pay({ key: "order-1" });
assert.deepEqual(retry, { ...clicks[0], isReplayed: true });
assert.equal(provider.asked.length, 1);
console.log(`retry: ${retry.status} ${retry.location}, replayed`);

// A key belongs to one request. With another amount it is refused: nothing is charged, and no receipt is sent.
const reused = await pay({ key: "order-1", amount: 9_900 });
assert.equal(reused.status, 422);
console.log(`another amount: ${reused.status} ${reused.body.code}`);

// Two customers may choose the same key.
const bob = await pay({ key: "order-1", as: "bob" });
assert.notEqual(bob.body.receipt, retry.body.receipt);
console.log(`bob with the same key: ${bob.status}, a charge of his own`);

// A declined card is a kept answer: the provider is not called again.
const declined = await pay({ key: "order-2", card: "no-funds" });
const asked = provider.asked.length;
const still = await pay({ key: "order-2", card: "no-funds" });
assert.equal(provider.asked.length, asked);
console.log(`declined: ${declined.status}, and on retry ${still.status} without asking the provider`);

// An outage of the provider is not kept: the key is released, and the retry makes the charge.
provider.isAway = true;
const away = await pay({ key: "order-3" });
provider.isAway = false;
const back = await pay({ key: "order-3" });
assert.equal(provider.asked.at(-1), provider.asked.at(-2));
console.log(`outage: ${away.status}, then ${back.status}; the provider saw one key for both`);

server.close();
await guard.close();
