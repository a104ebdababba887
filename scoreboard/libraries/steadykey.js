/** steadykey on Redis and in memory: its execute-once runner, and its middleware for Express. */
import {
  IdempotencyCollisionError,
  IdempotencyInProgressError,
  IdempotencyManager,
  InMemoryIdempotencyStore,
  RedisIdempotencyStore,
} from "steadykey";
import { createIdempotencyMiddleware } from "steadykey/middleware";
import { sharedStore } from "../process-store.js";
import { countRedis, flushRedis } from "../records.js";
import { connectRedis } from "../redis-client.js";
import { createRunningCalls } from "../running-calls.js";

const DAY_SECONDS = 86_400;

function steadykey({ name, title, packages = [], openStore, settings, ...rest }) {
  async function openManager(options) {
    const { target, wrap = (store) => store, application = "shop" } = options;
    const { store, close } = await openStore(target, options);
    const manager = new IdempotencyManager(wrap(store), {
      defaultTtlSeconds: toSeconds(options.retentionMs) ?? DAY_SECONDS,
      keyPrefix: application,
    });
    return { manager, close };
  }

  return {
    name,
    title,
    packages: ["steadykey", ...packages],
    documentation: "https://www.npmjs.com/package/steadykey/v/3.1.1",
    settings,
    hasLease: true,
    ...rest,

    async open(options) {
      const { manager, close } = await openManager(options);
      const running = createRunningCalls();
      return {
        call: (request, work) => running.track(call(manager, options, request, work)),
        loseRecords: () => rest.loseRecords?.(options.target),
        // It documents no shutdown: the application lets its calls end before it closes the client.
        async close() {
          await running.ended();
          await close?.();
        },
      };
    },

    async openHttp(options) {
      const { manager, close } = await openManager(options);
      const { handle, isScoped } = options;
      const { startExpress } = await import("../express-server.js");
      const layer = createIdempotencyMiddleware(manager, {
        // As its documentation says: a namespace for each tenant, user or operation.
        ...(isScoped && {
          namespace: (request) => `${request.headers.authorization} ${request.method} ${request.path}`,
        }),
        ...(options.keep && { shouldStore: (response) => decideByStatus(options.keep, response.status) }),
      });
      const server = await startExpress({ after: [layer], handle });
      return {
        url: server.url,
        async close() {
          await server.close();
          await close?.();
        },
      };
    },
  };
}

async function call(manager, options, { key, body, operation, tenant, waitMs, ...policy }, work) {
  const payload = body ?? null;
  const leaseMs = options.leaseMs ?? 30_000;
  try {
    const result = await manager.execute(payload, () => work(body), {
      idempotencyKey: key,
      namespace: [tenant, operation ?? "charge"].filter(Boolean).join("/"),
      leaseSeconds: Math.max(1, Math.ceil(leaseMs / 1_000)),
      ...(policy.retentionMs !== undefined && { ttlSeconds: toSeconds(policy.retentionMs) }),
      ...(waitMs === 0 ? { inFlight: "fail-fast" } : { waitTimeoutMs: waitMs ?? 10_000 }),
      ...(policy.onFailure && { failureMode: FAILURES[policy.onFailure] }),
    });
    return { value: result.value, isReplay: result.fromCache };
  } catch (error) {
    return { refusal: refusalFrom(error), message: `${error.name}: ${error.message}` };
  }
}

const FAILURES = { release: "retry", hold: "cache" };

function refusalFrom(error) {
  if (error instanceof IdempotencyInProgressError) return "pending";
  if (error instanceof IdempotencyCollisionError) return "conflict";
  return "failed";
}

function toSeconds(ms) {
  return ms === undefined ? undefined : ms / 1_000;
}

/** Whether an answer is stored, by the rules that the scenario asks for. */
export function decideByStatus(keep, status) {
  return keep[status] !== "release";
}

export const steadykeyRows = [
  steadykey({
    name: "steadykey-memory",
    title: "steadykey, memory",
    settings: '`InMemoryIdempotencyStore`, `defaultTtlSeconds` 24 h, `leaseSeconds` 30, `inFlight: "wait"`.',
    openStore: async (target, options) => ({
      store: sharedStore(target, options, () => new InMemoryIdempotencyStore()),
    }),
    loseRecords: (target) => target.emptyStore(),
    purgeNow: ({ sharedStore: store }) => store.purgeExpired(),
    countRecords: async ({ sharedStore: store }) => store.size,
    backlog: 100_000,
    clients: { "no client": undefined },
  }),
  steadykey({
    name: "steadykey-redis",
    title: "steadykey, Redis",
    packages: ["redis"],
    settings:
      '`RedisIdempotencyStore` on a client of `redis`, `defaultTtlSeconds` 24 h, `leaseSeconds` 30, `inFlight: "wait"`.',
    place: "redis",
    isShared: true,
    openStore: async ({ url }, options) => {
      const client = await connectRedis(url, options);
      return { store: new RedisIdempotencyStore(client), close: async () => client.destroy() };
    },
    loseRecords: ({ directUrl }) => flushRedis(directUrl),
    countRecords: ({ directUrl }) => countRedis(directUrl),
    clients: { redis: undefined },
  }),
];
