/**
 * A Worker with its guard, and everything that is made of it, at module level. Each door does the same work, on a store that
 * sends a request for every step. If a door shared a timer or a promise between two requests, one of them would hang.
 */
import { createGuard } from "nevertwice";
import { createClaims } from "nevertwice/claims";
import { createFetch } from "nevertwice/client";
import { consumer } from "nevertwice/events";
import { cloudEvents } from "nevertwice/events/cloudevents";
import { github, webhook } from "nevertwice/events/webhook";
import { withIdempotency } from "nevertwice/http/fetch";
import { protect } from "nevertwice/protect";
import { saga } from "nevertwice/saga";
import { callObject, objectStore } from "./records-object.ts";

export { Records } from "./records-object.ts";

interface Order {
  readonly key: string;
  readonly ms: number;
}

const store = objectStore("doors");
const guard = createGuard({
  store,
  leaseMs: 5_000,
  onPending: "wait",
  waitMs: 20_000,
  storeTimeoutMs: 5_000,
});
const runs: Record<string, number> = {};

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Takes as long as the order says. It makes a request and timers of its own, as work does. */
async function work({ key, ms }: Order): Promise<string> {
  runs[key] = (runs[key] ?? 0) + 1;
  await callObject("orders", "counts");
  for (let waited = 0; waited < ms; waited += 50) await pause(50);
  return `${key} ran ${runs[key]}`;
}

/** Messages, webhooks and claims do not wait for another attempt: their sender comes again. */
async function comeAgain(ask: () => Promise<string | undefined>): Promise<string> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await pause(50);
  }
}

const wrapped = guard.wrap(work, { operation: "wrap", key: ({ key }) => key });
const billing = consumer<Order, string>(guard, { name: "billing", key: ({ key }) => key, work });
const events = cloudEvents<string>(guard, { name: "events", work: ({ data }) => work(data as Order) });
const claims = createClaims({ store });

const SECRET = "the secret of the webhook";
const hook = webhook<string>(guard, {
  name: "hook",
  scheme: github,
  secret: SECRET,
  work: (received) => work(received.json() as Order),
  respond: (body) => ({ body }),
});

async function signed({ key, ms }: Order): Promise<Request> {
  const utf8 = new TextEncoder();
  const body = JSON.stringify({ key, ms });
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const secret = await crypto.subtle.importKey("raw", utf8.encode(SECRET), hmac, false, ["sign"]);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", secret, utf8.encode(body)));
  const signature = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const headers = { "x-github-delivery": key, "x-hub-signature-256": `sha256=${signature}` };
  return new Request("http://shop.example/hooks", { method: "POST", headers, body });
}

const shop = withIdempotency(guard, { scope: "anyone" }, async (request) =>
  Response.json(await work((await request.json()) as Order)),
);
const seen = new Set<string>();
/** The shop is unreachable for the first try of each request. */
const send = createFetch({
  firstPauseMs: 50,
  async fetch(input, init) {
    const request = new Request(input, init);
    await callObject("orders", "counts");
    const isFirst = !seen.has(request.headers.get("x-try") ?? "");
    seen.add(request.headers.get("x-try") ?? "");
    return isFirst ? new Response(null, { status: 503 }) : shop(request);
  },
});

const retryOnce = { execute: (attempt: () => Promise<unknown>) => attempt().catch(attempt) };

const doors: Readonly<Record<string, (order: Order) => Promise<unknown>>> = {
  "guard.run": (order) => guard.run({ operation: "run", key: order.key }, () => work(order)),
  "guard.wrap": (order) => wrapped(order),
  // One after another: the first holder of the lock does the work.
  "guard.exclusive": (order) =>
    guard.exclusive(order.key, () => (runs[order.key] === undefined ? work(order) : `${order.key} ran 1`)),
  async "guard.claim"(order) {
    const claim = await guard.claim<string>({ operation: "claim", key: order.key, onPending: "wait" });
    if (claim.status !== "claimed") return "value" in claim ? claim.value : claim;
    const value = await work(order);
    await claim.complete(value);
    return value;
  },
  async "guard.mark"(order) {
    const subject = { operation: "mark", key: order.key };
    if ((await guard.seen(subject)) || !(await guard.mark(subject))) return `${order.key} ran 1`;
    return work(order);
  },
  protect: (order) =>
    protect(guard, { operation: "protect", key: () => order.key, policy: retryOnce }, () => work(order)),
  saga: (order) =>
    comeAgain(async () => {
      const steps = [{ name: "charge", run: () => work(order) }] as const;
      const end = await saga(guard, { operation: "saga", key: order.key }, steps);
      return end.status === "done" ? String(end.outcomes.charge) : undefined;
    }),
  events: (order) =>
    comeAgain(async () => {
      const [delivery] = await billing.handleBatch([order]);
      return delivery?.verdict === "acknowledge" && "value" in delivery ? delivery.value : undefined;
    }),
  "events/cloudevents": (order) =>
    comeAgain(async () => {
      const event = { specversion: "1.0", type: "order", source: "/orders", id: order.key, data: order };
      const delivery = await events.handleEvent(event);
      return delivery.verdict === "acknowledge" && "value" in delivery ? delivery.value : undefined;
    }),
  "events/webhook": (order) =>
    comeAgain(async () => {
      const response = await hook(await signed(order));
      return response.ok ? response.text() : undefined;
    }),
  claims: (order) =>
    comeAgain(async () => {
      const claim = await claims.claim({ operation: "claims", key: order.key });
      if (claim.status === "completed" && claim.outcome.kind === "value") return String(claim.outcome.value);
      if (claim.status !== "new") return undefined;
      const value = await work(order);
      await claims.complete({ id: claim.id, token: claim.token, value });
      return value;
    }),
  async client(order) {
    const body = JSON.stringify(order);
    const headers = { "x-try": crypto.randomUUID() };
    const response = await send("http://shop.example/orders", {
      method: "POST",
      body,
      headers,
      idempotencyKey: order.key,
    });
    return response.json();
  },
};

// biome-ignore lint/style/noDefaultExport: a Worker is the default export of its module.
export default {
  async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const { door = "", key = "", ms = "0" } = Object.fromEntries(searchParams);
    if (door === "") return Response.json(Object.keys(doors));
    return Response.json(await doors[door]?.({ key, ms: Number(ms) }));
  },
};
