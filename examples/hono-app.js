/**
 * A Hono app: one middleware for all routes, an order that is placed once, and a handler that decides itself whether its
 * answer is kept.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { createGuard } from "nevertwice";
import { idempotency } from "nevertwice/http/hono";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
/** @type {Map<string, { id: string, item: string }>} */
const orders = new Map();
let stock = 0;
let lookups = 0;

const app = new Hono();
// Mount authentication in front of this. Here the shop's name serves as the login.
app.use(idempotency(guard, { scope: (c) => c.req.header("x-shop") }));

app.post("/orders", async (c) => {
  const { item } = await c.req.json();
  const order = { id: `order-${orders.size + 1}`, item };
  orders.set(order.id, order);
  return c.json(order, 201, { Location: `/orders/${order.id}` });
});

app.post("/reservations", async (c) => {
  lookups++;
  if (stock > 0) return c.json({ reserved: --stock === 0 }, 201);
  // A 409 would be kept, like every status below 500. But nothing was done, and there may be stock later.
  c.get("idempotency")?.keep("release");
  return c.json({ error: "sold out" }, 409);
});

app.post("/broken", () => {
  throw new Error("a bug");
});
app.onError((error, c) => c.json({ error: error.message }, 500));

const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
await once(server, "listening");
const address = server.address();
assert.ok(typeof address === "object" && address !== null);
const { port } = address;

/**
 * @param {string} path
 * @param {string | undefined} key
 * @param {object} body
 */
async function post(path, key, body = {}) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: {
      "x-shop": "tea-house",
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    location: response.headers.get("location"),
    isReplayed: response.headers.has("idempotent-replayed"),
    body: /** @type {Record<string, unknown>} */ (await response.json()),
  };
}

const placed = await post("/orders", "a-key", { item: "tea" });
const again = await post("/orders", "a-key", { item: "tea" });
assert.deepEqual(again, { ...placed, isReplayed: true });
assert.equal(orders.size, 1);
console.log(`order: ${placed.status} ${placed.location}, and again ${again.status} ${again.location}`);

// The same members in another order are the same request; another value is not.
const reused = await post("/orders", "a-key", { item: "coffee" });
assert.equal(orders.size, 1);
console.log(`another item: ${reused.status} ${reused.body.code}`);

// A key is optional unless the route requires one.
await post("/orders", undefined, { item: "tea" });
await post("/orders", undefined, { item: "tea" });
assert.equal(orders.size, 3);
console.log(`without a key: ${orders.size - 1} more orders`);

const soldOut = await post("/reservations", "b-key");
stock = 1;
const reserved = await post("/reservations", "b-key");
const reservedAgain = await post("/reservations", "b-key");
assert.equal(lookups, 2);
console.log(`reservation: ${soldOut.status}, ${reserved.status}, ${reservedAgain.status} replayed`);

const broken = await post("/broken", "c-key");
assert.equal(broken.isReplayed, false);
console.log(`a bug: ${broken.status}, and the key is free`);

server.close();
await guard.close();
