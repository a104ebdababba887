/** A Worker that charges an order once for each key, with its client, store and guard at module level. */
import { env } from "cloudflare:workers";
import { Redis } from "@upstash/redis/cloudflare";
import { createGuard } from "../../../../src/index.ts";
import { upstashStore } from "../../../../src/stores/upstash.ts";
import type { UpstashEnv } from "./env.ts";

const client = Redis.fromEnv(env as unknown as UpstashEnv, { automaticDeserialization: false });
const guard = createGuard({ store: upstashStore({ client }), namespace: "upstash-orders" });
let charges = 0;

// biome-ignore lint/style/noDefaultExport: the runtime looks for the handlers of a Worker there.
export default {
  async fetch(request: Request): Promise<Response> {
    const { key, amount } = (await request.json()) as { readonly key: string; readonly amount: number };
    const result = await guard.tryRun({ operation: "charge", key, fingerprint: { amount } }, async () => {
      const charge = ++charges;
      await new Promise((resolve) => setTimeout(resolve, 50));
      return { charge };
    });
    const { status } = result;
    return Response.json({ status, ...("value" in result && { value: result.value }), charges });
  },
};
