/**
 * A Worker with its guards at module level: the same orders through both adapters, on a store in the memory of the isolate and
 * on stores that send a request for every step. The body of an order says how long its handler works.
 */
import { waitUntil } from "cloudflare:workers";
import { Hono } from "hono";
import { createGuard, type GuardOptions } from "nevertwice";
import { github, webhook } from "nevertwice/events/webhook";
import { attemptOf, withIdempotency } from "nevertwice/http/fetch";
import { idempotency } from "nevertwice/http/hono";
import { memoryStore } from "nevertwice/stores/memory";
import { callObject, objectStore } from "./records-object.ts";

export { Records } from "./records-object.ts";

interface ExecutionContext {
  waitUntil(work: Promise<unknown>): void;
  passThroughOnException(): void;
}

type Serve = (request: Request, env: unknown, ctx: ExecutionContext) => Promise<Response> | Response;

const runs: Record<string, number> = {};

async function order(request: Request): Promise<Response> {
  const { ms = 0, ...rest } = (await request.json()) as { ms?: number };
  const key = request.headers.get("idempotency-key") ?? "";
  runs[key] = (runs[key] ?? 0) + 1;
  // A request of its own, as handlers make them.
  await callObject("orders", "counts");
  for (let waited = 0; waited < ms; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (attemptOf(request)?.signal.aborted) throw new Error("the lease was lost");
  }
  return Response.json({ run: runs[key], ...rest }, { status: 201 });
}

const OPTIONS = { scope: "anyone", onPending: "wait" } as const;
/** Blocks of so small a quota have one key, so every new key takes one first, which is a claim of its own. */
const LIMITED = { ...OPTIONS, quota: 64 } as const;

/** A lease so short that a test of lapses need not wait long. */
function guardOf(options: GuardOptions) {
  return createGuard({ leaseMs: 1_000, waitMs: 20_000, storeTimeoutMs: 5_000, ...options });
}

/** Longer than a busy machine may stop for, and shorter than the work of the test of renewals. */
const RENEWED_MS = 2_000;
const inMemory = guardOf({ store: memoryStore(), leaseMs: RENEWED_MS });
// The first claims check the store, which takes some time.
const inObject = guardOf({ store: objectStore("object"), leaseMs: RENEWED_MS, require: "our-crash" });
/** Each has records of its own, and sends its response before the store has completed one, if that takes longer. */
const hasty = (name: string, options: Omit<GuardOptions, "store"> = {}) =>
  guardOf({ store: objectStore(name), completeWaitMs: 100, ...options });
/** Only one request may wait for each key. */
const CROWDED = { ...OPTIONS, maxWaiting: { perKey: 1 } } as const;
const brief = guardOf({ store: objectStore("/brief/fetch"), retentionMs: 1, purgeEveryMs: 1 });

const guards = {
  "/hasty/fetch": hasty("/hasty/fetch"),
  "/hasty/hono": hasty("/hasty/hono"),
  "/carried/fetch": hasty("/carried/fetch", { waitUntil }),
  "/uncarried/fetch": hasty("/uncarried/fetch"),
  "/crowded/fetch": hasty("/crowded/fetch", { waitMs: 500 }),
};

/** Its sender signs nothing: the tests are about its connection. */
const hook = webhook(hasty("/hook"), {
  name: "hook",
  scheme: { ...github, id: { header: "idempotency-key" } },
  verify: () => true,
  async work({ body, header }) {
    const headers = { "idempotency-key": header("idempotency-key") ?? "" };
    await order(new Request("http://worker/hook", { method: "POST", headers, body: new Uint8Array(body) }));
  },
});

const carried = withIdempotency(guards["/carried/fetch"], OPTIONS, order);
const uncarried = withIdempotency(guards["/uncarried/fetch"], OPTIONS, order);
const crowded = withIdempotency(guards["/crowded/fetch"], CROWDED, order);
const routes: Readonly<Record<string, Serve>> = {
  "/memory/fetch": withIdempotency(inMemory, LIMITED, order),
  "/object/fetch": withIdempotency(inObject, LIMITED, order),
  "/brief/fetch": withIdempotency(brief, OPTIONS, order),
  "/hasty/fetch": withIdempotency(guards["/hasty/fetch"], OPTIONS, order),
  "/hook": hook,
  // Without the context: the guard has the platform's function itself, or nothing has it.
  "/carried/fetch": (request) => carried(request),
  "/uncarried/fetch": (request) => uncarried(request),
  "/crowded/fetch": (request) => crowded(request),
};

const app = new Hono();
app.post("/memory/hono", idempotency(inMemory, LIMITED), (c) => order(c.req.raw));
app.post("/object/hono", idempotency(inObject, LIMITED), (c) => order(c.req.raw));
app.post("/hasty/hono", idempotency(guards["/hasty/hono"], OPTIONS), (c) => order(c.req.raw));

/** What tests ask: how often a handler ran, in which state a record is, and anything of an object. */
const questions: Readonly<Record<string, (parameters: URLSearchParams, args: unknown[]) => unknown>> = {
  "/runs": (parameters) => runs[`"${parameters.get("key")}"`],
  "/state": async (parameters) => {
    const path = parameters.get("path") as keyof typeof guards;
    const subject = { operation: `POST ${path}`, key: parameters.get("key") ?? "" };
    return (await guards[path].read(subject))?.state;
  },
  "/object": (parameters, args) =>
    callObject(parameters.get("name") ?? "", parameters.get("step") ?? "", args),
};

// biome-ignore lint/style/noDefaultExport: a Worker is the default export of its module.
export default {
  async fetch(request: Request, env: unknown, ctx: ExecutionContext): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const question = questions[pathname];
    if (question !== undefined)
      return Response.json((await question(searchParams, (await request.json()) as unknown[])) ?? null);
    const serve = routes[pathname];
    return serve === undefined ? app.fetch(request, env, ctx as never) : serve(request, env, ctx);
  },

  async scheduled(): Promise<void> {
    await brief.purge();
  },
};
