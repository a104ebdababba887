/** This library on the four stores that the scoreboard shows, through its door for functions and its Express adapter. */
import { createGuard, isNevertwiceError } from "nevertwice";

const RETENTION_MS = 86_400_000;

/** Opens a guard on a store, and gives it the shape that the scenarios call. */
export function nevertwice({ name, title, packages = [], settings, openStore, ...rest }) {
  async function openGuard(options) {
    const { target, wrap = (store) => store, application = "shop" } = options;
    const { store, close } = await openStore(target, options);
    const guard = createGuard({
      store: wrap(store),
      namespace: application,
      leaseMs: options.leaseMs ?? 30_000,
      retentionMs: options.retentionMs ?? RETENTION_MS,
      ...(options.maxRunMs !== undefined && { maxRunMs: options.maxRunMs }),
      ...(options.hasFaults && { storeTimeoutMs: 1_500, completeWaitMs: 500 }),
      ...(options.purges && { purgeEveryMs: 250 }),
    });
    return { guard, close, store };
  }

  return {
    name,
    title,
    packages: ["nevertwice", ...packages],
    documentation: "options.md",
    settings,
    hasLease: true,
    refusesWithoutTenant: true,
    ...rest,

    async open(options) {
      const { guard, close, store } = await openGuard(options);
      await untilReady(guard);
      return {
        call: (request, work) => call(guard, request, work),
        ...unknownOutcomes(guard),
        loseRecords: () => rest.loseRecords?.(options.target),
        async close() {
          await guard.close();
          if (options.target.sharedStore !== store) await store.close?.();
          await close?.();
        },
      };
    },

    async openHttp(options) {
      const { guard, close, store } = await openGuard(options);
      const { handle, isScoped, ...layer } = options;
      const [{ idempotency }, { startExpress }] = await Promise.all([
        import("nevertwice/http/express"),
        import("../express-server.js"),
      ]);
      const server = await startExpress({
        before: [
          idempotency(guard, {
            ...(isScoped && { scope: (request) => request.headers.authorization ?? "nobody" }),
            methods: ["POST", "PUT", "PATCH", "DELETE"],
            ...(layer.keep && { keep: layer.keep }),
          }),
        ],
        handle,
      });
      return {
        url: server.url,
        async close() {
          await server.close();
          await guard.close();
          if (options.target.sharedStore !== store) await store.close?.();
          await close?.();
        },
      };
    },
  };
}

/** As an application does before it takes requests: on a busy machine a store may take seconds to start. */
async function untilReady(guard) {
  for (let triesLeft = 10; ; triesLeft--) {
    try {
      return await guard.ready();
    } catch (error) {
      if (triesLeft === 0 || error.code !== "unavailable") throw error;
    }
  }
}

async function call(guard, { key, body, operation = "charge", tenant, waitMs, ...policy }, work) {
  const request = {
    operation,
    key,
    ...(tenant !== undefined && { scope: tenant }),
    ...(body !== undefined && { fingerprint: body }),
    ...(waitMs === 0 ? { onPending: "reject" } : { waitMs: waitMs ?? 10_000 }),
    ...(policy.onFailure && { onFailure: FAILURES[policy.onFailure] }),
    ...(policy.holdsUnknown && { onLapsed: "hold" }),
    ...(policy.retentionMs !== undefined && { retentionMs: policy.retentionMs }),
  };
  try {
    const result = await guard.tryRun(request, () => work(body));
    if (result.status === "ran" || result.status === "replayed")
      return { value: result.value, isReplay: result.status === "replayed" };
    const { status, error, fence } = result;
    return {
      refusal: REFUSALS[status] ?? "other",
      message: [status, fence && `fence ${fence}`, error?.message].filter(Boolean).join(": "),
    };
  } catch (error) {
    return { refusal: isNevertwiceError(error) ? "other" : "failed", message: String(error.message) };
  }
}

const REFUSALS = {
  pending: "pending",
  conflict: "conflict",
  unavailable: "unavailable",
  unknown: "unknown",
  "lease-lost": "fenced",
};

const FAILURES = { release: "release", hold: "unknown" };

/** How callers and operators see and decide a key whose outcome is unknown. */
function unknownOutcomes(guard) {
  return {
    async listUnknown() {
      const { records } = await guard.listUnknown();
      return records.map(({ key, fence, operation }) => ({ key, fence, operation }));
    },
    resolveUnknown: ({ key, fence, operation }, value) =>
      guard.resolve({ operation, key, fence }, { status: "done", value }),
  };
}
