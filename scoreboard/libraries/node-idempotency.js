/** The core of node-idempotency on its own stores, driven as its plugins drive it, and its plugin for Nest. */
import { Idempotency, IdempotencyErrorCodes } from "@node-idempotency/core";
import { MemoryStorageAdapter } from "@node-idempotency/storage-adapter-memory";
import { RedisStorageAdapter } from "@node-idempotency/storage-adapter-redis";
import { callOverHttp } from "../call-over-http.js";
import { sharedStore } from "../process-store.js";
import { countRedis, flushRedis } from "../records.js";
import { createRunningCalls } from "../running-calls.js";

const NO_LEASE =
  "It has no lease: a key is locked for its whole retention, and no second worker takes it over before that.";
const DOCUMENTATION = "https://www.npmjs.com/package/@node-idempotency/core/v/1.0.11";

function core({ name, title, packages, openStorage, settings, ...rest }) {
  return {
    name,
    title,
    packages: ["@node-idempotency/core", ...packages],
    documentation: DOCUMENTATION,
    settings,
    ...rest,
    without: { 4: NO_LEASE, 5: NO_LEASE, 13: "Its core has no HTTP layer, so it does not know the callers." },

    async open(options) {
      const { target, wrap = (storage) => storage, application = "shop" } = options;
      const { storage, close } = await openStorage(target, options);
      const idempotency = new Idempotency(wrap(storage), {
        cacheTTLMS: options.retentionMs ?? 86_400_000,
        cacheKeyPrefix: application,
        enforceIdempotency: true,
      });
      const running = createRunningCalls();
      return {
        call: (request, work) => running.track(call(idempotency, request, work)),
        loseRecords: () => rest.loseRecords?.(target),
        async close() {
          await running.ended();
          await close?.();
        },
      };
    },
  };
}

async function call(idempotency, { key, body, operation = "charge", tenant, waitMs, retentionMs }, work) {
  const request = {
    headers: { "idempotency-key": key },
    method: "POST",
    // Its key is the method, the path and the header: the tenant is a part of the path.
    path: `/${[tenant, operation].filter(Boolean).join("/")}`,
    ...(body !== undefined && { body }),
    options: {
      inProgressStrategy: { wait: waitMs !== 0, pollingIntervalMs: 100, maxWaitMs: waitMs ?? 10_000 },
      ...(retentionMs !== undefined && { cacheTTLMS: retentionMs }),
    },
  };
  try {
    const kept = await idempotency.onRequest(request);
    if (kept !== undefined) {
      if (kept.error !== undefined) return { refusal: "failed", message: kept.error };
      return { value: kept.body, isReplay: true };
    }
    let value;
    try {
      value = await work(body);
    } catch (error) {
      // As its plugins do: an error is the outcome.
      await idempotency.onResponse(request, { error: String(error.message) });
      throw error;
    }
    await idempotency.onResponse(request, { body: value });
    return { value };
  } catch (error) {
    return { refusal: REFUSALS[error.code] ?? "failed", message: `${error.name}: ${error.message}` };
  }
}

const REFUSALS = {
  [IdempotencyErrorCodes.REQUEST_IN_PROGRESS]: "pending",
  [IdempotencyErrorCodes.IDEMPOTENCY_FINGERPRINT_MISSMATCH]: "conflict",
};

async function openMemory(target, options) {
  return { storage: sharedStore(target, options, () => new MemoryStorageAdapter()) };
}

async function openRedis({ url }, { hasFaults } = {}) {
  const storage = new RedisStorageAdapter({ url, ...(hasFaults && { disableOfflineQueue: true }) });
  await storage.connect();
  return { storage, close: () => storage.disconnect() };
}

const CALLS =
  "`onRequest`, work, `onResponse`; `cacheTTLMS` 24 h, `enforceIdempotency`, duplicates wait (`inProgressStrategy`); an error is stored as its plugins store it";

const onRedis = {
  place: "redis",
  isShared: true,
  loseRecords: ({ directUrl }) => flushRedis(directUrl),
  countRecords: ({ directUrl }) => countRedis(directUrl),
  clients: { "the adapter's own": undefined },
};

export const nodeIdempotencyRows = [
  core({
    name: "node-idempotency-memory",
    title: "node-idempotency core, memory",
    packages: ["@node-idempotency/storage-adapter-memory"],
    settings: `\`MemoryStorageAdapter\`; ${CALLS}.`,
    openStorage: openMemory,
    backlog: 100_000,
    loseRecords: (target) => target.emptyStore(),
    clients: { "no client": undefined },
  }),
  core({
    name: "node-idempotency-redis",
    title: "node-idempotency core, Redis",
    packages: ["@node-idempotency/storage-adapter-redis"],
    settings: `\`RedisStorageAdapter\`, which brings its own client; ${CALLS}.`,
    openStorage: openRedis,
    ...onRedis,
  }),
  {
    name: "node-idempotency-nest",
    title: "node-idempotency for Nest, Redis",
    packages: ["@node-idempotency/nestjs", "@nestjs/core"],
    documentation: "https://www.npmjs.com/package/@node-idempotency/nestjs/v/1.0.4",
    settings:
      "`NodeIdempotencyModule` with the Redis adapter, `@Idempotent()` on the controller, `cacheTTLMS` 24 h; Nest 10 on Express.",
    ...onRedis,
    // Each key takes a request.
    backlog: 5_000,
    without: { 4: NO_LEASE, 5: NO_LEASE },
    open: async (options) => ({
      ...(await callOverHttp(openNest, options)),
      loseRecords: () => flushRedis(options.target.directUrl),
    }),
    openHttp: openNest,
  },
];

async function openNest(options) {
  const { storage, close } = await openRedis(options.target, options);
  // Nest takes a second to load, and only its row needs it.
  const { startNest } = await import("./node-idempotency-nest.js");
  const server = await startNest({ ...options, storage });
  return {
    url: server.url,
    async close() {
      await server.close();
      await close();
    },
  };
}
