import assert from "node:assert/strict";
import { test } from "node:test";
import { isNevertwiceError } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { createPayments, type Receipt } from "../src/payments.js";

const ORDER = { id: "order-42", customer: "alice", amount: 4_200 };

function shop() {
  const charged: string[] = [];
  const payments = createPayments(memoryStore(), async (key, amount): Promise<Receipt> => {
    charged.push(key);
    return { id: `receipt-${charged.length}`, amount };
  });
  return { charged, payments };
}

test("charges an order once, however often it is sent", async () => {
  const { charged, payments } = shop();
  const receipts = await Promise.all(Array.from({ length: 10 }, () => payments.charge(ORDER)));
  assert.deepEqual(new Set(receipts.map(({ id }) => id)), new Set(["receipt-1"]));
  assert.equal(charged.length, 1);
  await payments.close();
});

test("charges the order of another customer with the same id", async () => {
  const { charged, payments } = shop();
  await payments.charge(ORDER);
  await payments.charge({ ...ORDER, customer: "bob" });
  assert.equal(new Set(charged).size, 2);
  await payments.close();
});

test("refuses another amount for the same order", async () => {
  const { charged, payments } = shop();
  await payments.charge(ORDER);
  await assert.rejects(payments.charge({ ...ORDER, amount: 1 }), (error) =>
    isNevertwiceError(error, "conflict"),
  );
  assert.equal(charged.length, 1);
  await payments.close();
});
