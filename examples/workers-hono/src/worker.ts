/**
 * Payments on Cloudflare Workers, with Hono, and with their records in Durable Objects. A payment is charged once, however
 * often its request is sent. Its receipt is mailed once, after the response.
 */
import { env } from "cloudflare:workers";
import { type Context, Hono } from "hono";
import { createGuard } from "nevertwice";
import { idempotency } from "nevertwice/http/hono";
import { durableObjectStore } from "nevertwice/stores/durable-objects";

// The class of the objects that keep the records. wrangler.jsonc names it.
export { NevertwiceObject } from "nevertwice/stores/durable-objects";

/** One guard for all requests. It is created when the Worker starts; nothing is sent then. */
const guard = createGuard({ store: durableObjectStore(env.NEVERTWICE), namespace: "payments" });

/** Stands for the payment provider and the mail service. */
const charged: string[] = [];
const mailed: string[] = [];

/** The owner of a key: the authenticated caller. A request without one is refused. */
function customerOf(c: Context): string | undefined {
  return c.req.header("authorization")?.replace("Bearer ", "");
}

async function mailReceipt(receipt: string): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 100));
  mailed.push(receipt);
}

const app = new Hono();

// A duplicate that arrives while the first request runs waits for it, and gets its response.
app.use("/payments", idempotency(guard, { scope: customerOf, onPending: "wait" }));

app.post("/payments", async (c) => {
  const { amount } = await c.req.json();
  const receipt = crypto.randomUUID();
  await new Promise((resolve) => setTimeout(resolve, 100));
  charged.push(receipt);
  // The runtime lets this go on after the response, for about 30 seconds.
  c.executionCtx.waitUntil(guard.run({ operation: "mail", key: receipt }, () => mailReceipt(receipt)));
  return c.json({ receipt, amount }, 201);
});

app.post("/receipts/:receipt/mail", async (c) => {
  const receipt = c.req.param("receipt");
  await guard.run({ operation: "mail", key: receipt }, () => mailReceipt(receipt));
  return c.json({ mailed: receipt });
});

app.get("/", (c) => c.json({ charged: charged.length, mailed: mailed.length }));

export default app;
