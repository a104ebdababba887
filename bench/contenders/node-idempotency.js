/** The core of node-idempotency on its own memory store, driven as its plugins drive it. */
import { Idempotency } from "@node-idempotency/core";
import { MemoryStorageAdapter } from "@node-idempotency/storage-adapter-memory";

export function create({ hasFingerprint }) {
  const idempotency = new Idempotency(new MemoryStorageAdapter(), {
    cacheTTLMS: 86_400_000,
    // Without this a duplicate of work in progress is refused, where the other two wait for its outcome.
    inProgressStrategy: { wait: true, pollingIntervalMs: 100, maxWaitMs: 10_000 },
  });
  return async (key, body, work) => {
    const request = { headers: { "idempotency-key": key }, method: "POST", path: "/charges" };
    if (hasFingerprint) request.body = body;
    const kept = await idempotency.onRequest(request);
    if (kept !== undefined) return kept.body;
    const value = await work();
    await idempotency.onResponse(request, { body: value });
    return value;
  };
}
