/** A Worker that runs the published cases, one for each request. All requests share one store, which is created once. */
import { Redis } from "@upstash/redis/cloudflare";
import type { Store } from "../../../../src/core/store.ts";
import { upstashStore } from "../../../../src/stores/upstash.ts";
import { storeCases } from "../../../../src/testing/store-cases.ts";
import type { UpstashEnv } from "./env.ts";

let shared: Store | undefined;

function storeOf(env: UpstashEnv): Store {
  shared ??= upstashStore({ client: Redis.fromEnv(env, { automaticDeserialization: false }) });
  return shared;
}

// biome-ignore lint/style/noDefaultExport: the runtime looks for the handlers of a Worker there.
export default {
  async fetch(request: Request, env: UpstashEnv): Promise<Response> {
    const title = new URL(request.url).searchParams.get("case");
    const found = storeCases(() => storeOf(env)).find(({ name }) => name === title);
    if (found === undefined) return Response.json({ failed: `there is no case ${title}` });
    const verdict = await found.run().then(
      (skip) => skip ?? {},
      (error: unknown) => ({ failed: error instanceof Error ? error.message : String(error) }),
    );
    return Response.json(verdict);
  },
};
