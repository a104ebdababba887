import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { unstable_startWorker } from "wrangler";

/** @type {Awaited<ReturnType<typeof unstable_startWorker>>} */
let worker;

before(async () => {
  worker = await unstable_startWorker({
    config: "wrangler.jsonc",
    dev: { inspector: false, persist: false },
  });
});
after(() => worker.dispose());

/** @param {string} key */
function pay(key, amount = 4_200) {
  return worker.fetch("http://worker/payments", {
    method: "POST",
    headers: { authorization: "Bearer alice", "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify({ amount }),
  });
}

test("charges once, however often the payment is sent, and mails one receipt after the response", async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => pay("order-1")));
  assert.deepEqual(
    answers.map(({ status }) => status),
    answers.map(() => 201),
  );
  const bodies = await Promise.all(answers.map((answer) => answer.text()));
  assert.equal(new Set(bodies).size, 1);
  assert.equal((await pay("order-1", 1)).status, 422);

  const { receipt } = JSON.parse(bodies[0] ?? "");
  const mailed = await worker.fetch(`http://worker/receipts/${receipt}/mail`, { method: "POST" });
  assert.equal(mailed.status, 200);
  const counted = await worker.fetch("http://worker/");
  assert.deepEqual(await counted.json(), { charged: 1, mailed: 1 });
});
