/** An MCP server whose tool charges once, however often an agent calls it with the same key. */
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { fromJsonSchema, InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { createGuard } from "nevertwice";
import { callOnce, idempotentTool, mayRetry } from "nevertwice/events/mcp";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });

/** The keys that the payment provider received. */
const charged = new Set();

/** @type {import("@modelcontextprotocol/server").StandardSchemaWithJSON<{ amount: number }>} */
const inputSchema = fromJsonSchema({
  type: "object",
  properties: { amount: { type: "number" }, idempotency_key: { type: "string" } },
  required: ["amount"],
});

// The key is a required argument: a call with the same arguments is a duplicate, so the tool may claim to be idempotent.
const tool = idempotentTool(guard, {
  operation: "charge",
  scope: "anyone",
  key: { argument: "idempotency_key" },
});
const server = new McpServer({ name: "shop", version: "1.0.0" });
server.registerTool(
  "charge",
  { description: "Charges the card on file.", inputSchema, annotations: tool.annotations() },
  tool.handler(async ({ amount }, _context, attempt) => {
    if (amount > 1_000) return { content: [{ type: "text", text: "card declined" }], isError: true };
    charged.add(attempt.deriveKey("provider"));
    return { content: [{ type: "text", text: `receipt ${charged.size} for ${amount}` }] };
  }),
);

const [near, far] = InMemoryTransport.createLinkedPair();
const agent = new Client({ name: "agent", version: "1.0.0" });
await server.connect(far);
await agent.connect(near);

/** @param {Record<string, unknown>} args */
async function charge(args) {
  const { content, isError, _meta } = await agent.callTool({ name: "charge", arguments: args });
  const [first] = content;
  return { text: first?.type === "text" ? first.text : "", isError, _meta };
}

// The agent lost the answer and calls again. It gets the same receipt, and the host can see that it is a replay.
const first = await charge({ amount: 42, idempotency_key: "order-1" });
const again = await charge({ amount: 42, idempotency_key: "order-1" });
assert.equal(again.text, first.text);
assert.deepEqual(again._meta, { replayed: true });
assert.equal(charged.size, 1);
console.log(`called twice: ${first.text}, and ${again.text}`);

// The agent uses the old key for another amount: that is a conflict, and never returns the old receipt.
const replanned = await charge({ amount: 43, idempotency_key: "order-1" });
assert.equal(replanned.isError, true);
console.log(`planned anew: ${replanned.text}`);

// Without a key, a retry cannot be distinguished from a second order.
const keyless = await charge({ amount: 42 });
assert.equal(keyless.isError, true);
console.log(`no key: ${keyless.text}`);

// A tool that returns an error has not done the work: the same key may be used again.
const declined = await charge({ amount: 5_000, idempotency_key: "order-2" });
console.log(`declined: ${declined.text}, and nothing is kept`);

// The client's side: only the hints of a trusted server decide whether a call may be repeated.
const { tools } = await agent.listTools();
const [listed] = tools;
assert.ok(listed);
console.log(
  `may it be repeated? ${mayRetry(listed, { trusted: true })}; if we do not trust the server: ${mayRetry(listed)}`,
);

// callOnce creates the key before the first try and sends it with every try.
const once = await callOnce(
  agent,
  { name: "charge", arguments: { amount: 7 } },
  { place: { argument: "idempotency_key" } },
);
assert.equal(once.isError, undefined);
assert.equal(charged.size, 2);
console.log(`charged ${charged.size} times in all`);

await agent.close();
await guard.close();
