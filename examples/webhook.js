/** Webhooks that are signed, sent again, and sometimes forged. Each is processed once. */
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
 * The sender's side: every try has the same id, a new timestamp, and therefore a new signature.
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

// A request that is signed with another secret is refused, and writes nothing to the store.
const { headers } = signed("msg_2", '{"order":"A-2"}');
const forged = await receive(
  new Request("https://shop.example/hooks", { method: "POST", headers, body: '{"order":"B-2"}' }),
);
assert.equal(forged.status, 401);
const { code } = /** @type {{ code: string }} */ (await forged.json());
console.log(`forged: ${forged.status} ${code}`);

// The work failed: the sender gets a 500, and its next try succeeds.
isWarehouseOpen = false;
const failed = await receive(signed("msg_2", '{"order":"A-2"}'));
isWarehouseOpen = true;
const retried = await receive(signed("msg_2", '{"order":"A-2"}'));
assert.deepEqual(shipped, ["A-1", "A-2"]);
console.log(
  `failed: ${failed.status}, come back in ${failed.headers.get("retry-after")} s; then ${retried.status}`,
);

// Another sender is another scheme. Stripe puts timestamp and signature in one header, and the id in the body.
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

// A retention that is shorter than the sender's retries is refused before the first webhook arrives.
const options = { name: "short", scheme: stripe, secret: "whsec_test", work: () => {} };
assert.throws(
  () => webhook(guard, { ...options, retentionMs: 86_400_000 }),
  /stripe may send a message again/,
);
console.log("a day of memory for Stripe: refused");

await guard.close();
