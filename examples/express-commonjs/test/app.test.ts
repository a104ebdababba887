import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { memoryStore } from "nevertwice/stores/memory";
import { type Charge, createApp } from "../src/app";

const charges: Charge[] = [];
const app = createApp(memoryStore(), async (charge) => {
  charges.push(charge);
  return `receipt-${charges.length}`;
});
let url: string;
let stop: () => void;

before(async () => {
  const server = app.listen(0);
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/payments`;
  stop = () => server.close();
});
after(() => stop());

function pay(key: string | undefined, amount = 4_200, customer = "alice"): Promise<Response> {
  const headers = {
    authorization: `Bearer ${customer}-secret`,
    "content-type": "application/json",
    ...(key !== undefined && { "idempotency-key": key }),
  };
  return fetch(url, { method: "POST", headers, body: JSON.stringify({ amount }) });
}

test("replays the response of a payment that is sent again", async () => {
  const [first, ...others] = await Promise.all(Array.from({ length: 5 }, () => pay("order-1")));
  assert.ok(first !== undefined);
  assert.equal(first.status, 201);
  const body = await first.text();
  for (const other of others) {
    assert.equal(other.status, 201);
    assert.equal(await other.text(), body);
    assert.equal(other.headers.get("location"), first.headers.get("location"));
  }
  assert.equal(charges.length, 1);
});

test("refuses a payment without a key, and another payment with the same key", async () => {
  assert.equal((await pay(undefined)).status, 400);
  assert.equal((await pay("order-2")).status, 201);
  assert.equal((await pay("order-2", 1)).status, 422);
  assert.equal((await pay("order-2", 4_200, "bob")).status, 201);
});
