/** A Worker with a guard at module level for each store. Other objects count how often their work ran. */
import { env } from "cloudflare:workers";
import { createGuard, type Guard } from "nevertwice";
import { type D1Database, d1Store } from "nevertwice/stores/d1";
import { type DurableObjectNamespace, durableObjectStore } from "nevertwice/stores/durable-objects";

export { NevertwiceObject } from "nevertwice/stores/durable-objects";

export class Counter {
  #runs = 0;
  async fetch(request: Request): Promise<Response> {
    this.#runs += Number(await request.text());
    return Response.json(this.#runs);
  }
}

interface Bindings extends Readonly<Record<"NEVERTWICE" | "COUNTER", DurableObjectNamespace>> {
  readonly DB: D1Database;
}

const { NEVERTWICE, COUNTER, DB } = env as unknown as Bindings;
const database = d1Store(DB);
const guards: Readonly<Record<string, Guard>> = {
  objects: createGuard({ store: durableObjectStore(NEVERTWICE), namespace: "shop" }),
  d1: createGuard({ store: database, namespace: "shop" }),
};

async function count(key: string, runs: 0 | 1): Promise<number> {
  const stub = COUNTER.get(COUNTER.idFromName(key));
  const response = await stub.fetch("https://counter", { method: "POST", body: String(runs) });
  return Number(await response.text());
}

/** For measurements: work that takes no time. */
function runAlone(guard: Guard, key: string) {
  return guard.tryRun({ operation: "charge", key, fingerprint: { amount: 5 } }, () => "x".repeat(1_000));
}

interface Context {
  waitUntil(promise: Promise<unknown>): void;
}

export default {
  async fetch(request: Request, _env: unknown, context: Context): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const { store = "", key = "", workMs = "0", amount = "1" } = Object.fromEntries(searchParams);
    if (pathname === "/migrate") return Response.json((await database.migrate()) ?? null);
    if (pathname === "/runs") return Response.json(await count(store + key, 0));
    const guard = guards[store] as Guard;
    if (pathname === "/alone") return Response.json(await runAlone(guard, key));
    const running = guard.tryRun({ operation: "charge", key, fingerprint: amount }, async () => {
      await count(store + key, 1);
      await new Promise((resolve) => setTimeout(resolve, Number(workMs)));
      return crypto.randomUUID();
    });
    if (pathname !== "/later") return Response.json(await running);
    context.waitUntil(running);
    return Response.json("accepted");
  },
};
