/** An MCP server whose tool charges once, however often an agent calls it: an answer got lost, or it starts over. */
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { fromJsonSchema, InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { createGuard } from "nevertwice";
import { callOnce, idempotentTool, mayRetry } from "nevertwice/events/mcp";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });

/** The payment provider, and the keys it was sent. */
const charged = new Set();

/** @type {import("@modelcontextprotocol/server").StandardSchemaWithJSON<{ amount: number }>} */
const inputSchema = fromJsonSchema({
  type: "object",
  properties: { amount: { type: "number" }, idempotency_key: { type: "string" } },
  required: ["amount"],
});

// The key is an argument that every call needs: the same arguments are the same call, and the tool may say so.
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

// The agent lost the answer and calls again: the same receipt, and the host can see that it is a replay.
const first = await charge({ amount: 42, idempotency_key: "order-1" });
const again = await charge({ amount: 42, idempotency_key: "order-1" });
assert.equal(again.text, first.text);
assert.deepEqual(again._meta, { replayed: true });
assert.equal(charged.size, 1);
console.log(`called twice: ${first.text}, and ${again.text}`);

// It plans anew with the old key: that is another call, and never the old receipt.
const replanned = await charge({ amount: 43, idempotency_key: "order-1" });
assert.equal(replanned.isError, true);
console.log(`planned anew: ${replanned.text}`);

// Without a key there is no telling a retry from a second order.
const keyless = await charge({ amount: 42 });
assert.equal(keyless.isError, true);
console.log(`no key: ${keyless.text}`);

// A tool that answers an error has not done it: the same key may be tried again.
const declined = await charge({ amount: 5_000, idempotency_key: "order-2" });
console.log(`declined: ${declined.text}, and nothing is kept`);

// The client's side: whether a call may be repeated is asked of tools of servers that are trusted, and of no others.
const { tools } = await agent.listTools();
const [listed] = tools;
assert.ok(listed);
console.log(
  `may it be repeated? ${mayRetry(listed, { trusted: true })}; if we do not trust the server: ${mayRetry(listed)}`,
);

// And a call that makes its key before the first try, and keeps it over all of them.
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
