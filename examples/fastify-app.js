/**
 * A Fastify app: one plugin for all routes, and routes with their own options: one requires a key, one keeps no body of
 * its answers, and one is not protected.
 */
import assert from "node:assert/strict";
import { fastify } from "fastify";
import { createGuard } from "nevertwice";
import { idempotency } from "nevertwice/http/fastify";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
const counts = { transfers: 0, passwords: 0, searches: 0 };

const app = fastify();
// Authenticate in onRequest or preValidation: both run before the plugin.
app.addHook("onRequest", async (request, reply) => {
  if (request.headers["x-account"] === undefined) return reply.code(401).send({ error: "who are you?" });
});
await app.register(idempotency(guard, { scope: (request) => String(request.headers["x-account"]) }));

/** @typedef {{ Body: { to: string, amount: number, note?: string } }} Transfer */

app.post(
  "/transfers",
  {
    config: {
      idempotency: { required: true, operation: "transfer", fingerprint: { fields: ["to", "amount"] } },
    },
  },
  /** @param {import("fastify").FastifyRequest<Transfer>} request */
  async (request, reply) => {
    counts.transfers++;
    const { to, amount } = request.body;
    const reference = request.idempotency?.deriveKey("bank").slice(0, 8);
    return reply.code(201).header("location", `/transfers/${reference}`).send({ to, amount });
  },
);

// The secret is not stored: a retry only learns that the work was done.
app.post("/passwords", { config: { idempotency: { keep: "marker" } } }, async (_request, reply) => {
  counts.passwords++;
  return reply.code(201).send({ password: "correct horse battery staple" });
});

// A search changes nothing, although it is a POST.
app.post("/searches", { config: { idempotency: false } }, async () => ({ found: ++counts.searches }));

const url = await app.listen({ port: 0, host: "127.0.0.1" });

/**
 * @param {string} path
 * @param {string | undefined} key
 * @param {object} body
 */
async function post(path, key, body = {}) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: {
      "x-account": "alice",
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: text === "" ? {} : JSON.parse(text),
  };
}

const keyless = await post("/transfers", undefined, { to: "bob", amount: 10 });
console.log(`transfer without a key: ${keyless.status} ${keyless.json.code}`);

const first = await post("/transfers", "rent-may", { to: "bob", amount: 900 });
// The note is not among the fields that make two transfers the same.
const retry = await post("/transfers", "rent-may", { to: "bob", amount: 900, note: "again?" });
assert.equal(retry.text, first.text);
assert.equal(retry.headers.get("location"), first.headers.get("location"));
assert.equal(counts.transfers, 1);
console.log(`transfer: ${first.status}, and again ${retry.status} with the same location`);

const other = await post("/transfers", "rent-may", { to: "eve", amount: 900 });
assert.equal(counts.transfers, 1);
console.log(`the key for another transfer: ${other.status} ${other.json.code}`);

const password = await post("/passwords", "reset-1");
const forgotten = await post("/passwords", "reset-1");
assert.ok(password.json.password);
assert.equal(counts.passwords, 1);
console.log(`password: ${password.status}, and again ${forgotten.status} ${forgotten.json.code}`);

await post("/searches", "same-key");
const search = await post("/searches", "same-key");
console.log(`search: ran ${search.json.found} times`);

await app.close();
await guard.close();
