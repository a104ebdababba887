/** A shop for frameworks that load route files themselves: they need the guard in a module of its own. */
import { appendFile } from "node:fs/promises";
import { Redis } from "ioredis";
import { createGuard } from "nevertwice";
import { redisStore } from "nevertwice/stores/redis";
import { createOrders } from "./orders.js";
import { createPayments } from "./payments.js";

// Frameworks import this module while they build, too, so it connects only when it is used.
const client = new Redis(process.env.REDIS_URL ?? "redis://localhost", { lazyConnect: true });
const guard = createGuard({ store: redisStore({ client }), namespace: process.env.SHOP ?? "shop" });
const ledger = process.env.SHOP_LEDGER ?? "./ledger.txt";
let failures = 0;

export const payments = createPayments(guard, async (cents, idempotencyKey) => {
  if (cents === 13 && failures++ === 0) throw new Error("the payment provider is down");
  await appendFile(ledger, `${idempotencyKey} ${cents}\n`);
  return `receipt-${idempotencyKey?.slice(0, 8)}`;
});

export const order = createOrders(guard, async (item, idempotencyKey) => {
  await appendFile(ledger, `${idempotencyKey} ${item}\n`);
  return idempotencyKey.slice(0, 8);
});
