/**
 * The guard of this app at the edge, where there is no TCP: Upstash over REST. Its URL and token come from the variables that
 * Upstash and Vercel set. Without them, for a look at the example, records are in the memory of one process.
 */
import { Redis } from "@upstash/redis";
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { upstashStore } from "nevertwice/stores/upstash";

const client = () =>
  Redis.fromEnv({ automaticDeserialization: false, signal: () => AbortSignal.timeout(5_000) });

export const guard = createGuard({
  store: process.env.UPSTASH_REDIS_REST_URL ? upstashStore({ client: client() }) : memoryStore(),
  namespace: "shop",
});

const CUSTOMERS = new Map([
  ["Bearer alice-secret", "alice"],
  ["Bearer bob-secret", "bob"],
]);

/** The owner of a key: the authenticated caller. A request without one is refused. */
export function customerOf(request: Request): string | undefined {
  return CUSTOMERS.get(request.headers.get("authorization") ?? "");
}
