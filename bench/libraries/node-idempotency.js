/** The core of node-idempotency on its own stores, driven as its plugins drive it. */
import { Idempotency } from "@node-idempotency/core";

export async function create({ store, target, hasFingerprint }) {
  const adapter = await ADAPTERS[store](target);
  const idempotency = new Idempotency(adapter, {
    cacheTTLMS: 86_400_000,
    // Without this a duplicate of work in progress is refused, where the others wait for its outcome.
    inProgressStrategy: { wait: true, pollingIntervalMs: 100, maxWaitMs: 10_000 },
  });
  return {
    async run(key, body, work) {
      const request = { headers: { "idempotency-key": key }, method: "POST", path: "/charges" };
      if (hasFingerprint) request.body = body;
      const kept = await idempotency.onRequest(request);
      if (kept !== undefined) return kept.body;
      const value = await work();
      await idempotency.onResponse(request, { body: value });
      return value;
    },
    async close() {
      await adapter.disconnect?.();
    },
  };
}

const ADAPTERS = {
  async memory() {
    const { MemoryStorageAdapter } = await import("@node-idempotency/storage-adapter-memory");
    return new MemoryStorageAdapter();
  },

  async redis({ url }) {
    const { RedisStorageAdapter } = await import("@node-idempotency/storage-adapter-redis");
    const adapter = new RedisStorageAdapter({ url });
    await adapter.connect();
    return adapter;
  },
};
