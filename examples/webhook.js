/** Webhooks as their senders really send them: signed, sent again for days, forged now and then. Each is done once. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createGuard } from "nevertwice";
import { standardWebhooks, stripe, webhook } from "nevertwice/events/webhook";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** @type {string[]} */
const shipped = [];
let isWarehouseOpen = true;

const receive = webhook(guard, {
  name: "warehouse",
  scheme: standardWebhooks,
  secret: SECRET,
  work: (message) => {
    if (!isWarehouseOpen) throw new Error("closed");
    const { order } = /** @type {{ order: string }} */ (message.json());
    shipped.push(order);
  },
});

/**
 * The sender's side: a new timestamp and so a new signature at every try, and the same id.
 * @param {string} id
 * @param {string} body
 */
function signed(id, body) {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const key = Buffer.from(SECRET.slice("whsec_".length), "base64");
  const mark = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${mark}` };
  return new Request("https://shop.example/hooks", { method: "POST", headers, body });
}

const first = await receive(signed("msg_1", '{"order":"A-1"}'));
const again = await receive(signed("msg_1", '{"order":"A-1"}'));
assert.deepEqual(shipped, ["A-1"]);
console.log(`sent twice: ${first.status} and ${again.status}, shipped ${shipped.length}`);

// Somebody who does not know the secret gets nowhere, and leaves nothing behind.
const { headers } = signed("msg_2", '{"order":"A-2"}');
const forged = await receive(
  new Request("https://shop.example/hooks", { method: "POST", headers, body: '{"order":"B-2"}' }),
);
assert.equal(forged.status, 401);
const { code } = /** @type {{ code: string }} */ (await forged.json());
console.log(`forged: ${forged.status} ${code}`);

// What failed was not done: the sender is told so, and its next try does it.
isWarehouseOpen = false;
const failed = await receive(signed("msg_2", '{"order":"A-2"}'));
isWarehouseOpen = true;
const retried = await receive(signed("msg_2", '{"order":"A-2"}'));
assert.deepEqual(shipped, ["A-1", "A-2"]);
console.log(
  `failed: ${failed.status}, come back in ${failed.headers.get("retry-after")} s; then ${retried.status}`,
);

// Another sender is another description. This one keeps its timestamp and signature in one header, its id in the body.
const charges = webhook(guard, {
  name: "charges",
  scheme: stripe,
  secret: "whsec_test",
  work: () => {},
  onEvent: ({ kind }) => console.log(`stripe: ${kind}`),
});
for (let delivery = 0; delivery < 2; delivery++) {
  const timestamp = Math.floor(Date.now() / 1_000);
  const body = '{"id":"evt_1","type":"charge.succeeded"}';
  const mark = createHmac("sha256", "whsec_test").update(`${timestamp}.${body}`).digest("hex");
  const answer = await charges.handle({ headers: { "Stripe-Signature": `t=${timestamp},v1=${mark}` }, body });
  assert.equal(answer.status, 204);
}

// A memory that ends before the sender's retries do is refused before the first webhook comes.
const options = { name: "short", scheme: stripe, secret: "whsec_test", work: () => {} };
assert.throws(
  () => webhook(guard, { ...options, retentionMs: 86_400_000 }),
  /stripe may send a message again/,
);
console.log("a day of memory for Stripe: refused");

await guard.close();
