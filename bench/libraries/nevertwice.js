/** This library, as its users use it. */
import { createGuard } from "nevertwice";

export async function create({ store, target, hasFingerprint, capacity }) {
  const { guard, close } = await openGuard(store, target, capacity);
  const run = hasFingerprint
    ? (key, body, work) => guard.run({ operation: "charge", key, fingerprint: body }, work)
    : (key, _body, work) => guard.run({ operation: "charge", key }, work);
  return { run, close };
}

/** `close` closes the guard, its store and the client of the store. */
export async function openGuard(name, target, capacity) {
  const { store, close } = await STORES[name](target, capacity);
  const guard = createGuard({ store });
  return {
    guard,
    async close() {
      await guard.close();
      await store.close();
      await close?.();
    },
  };
}

export const STORES = {
  async memory(_place, capacity) {
    const { memoryStore } = await import("nevertwice/stores/memory");
    // The default limit would refuse the last keys of a long run; the limit itself costs nothing.
    return { store: memoryStore({ maxRecords: capacity }) };
  },

  async redis({ url }) {
    const [{ redisStore }, { Redis }] = await Promise.all([
      import("nevertwice/stores/redis"),
      import("ioredis"),
    ]);
    const client = new Redis(url);
    return { store: redisStore({ client }), close: () => client.quit() };
  },

  async postgres({ url }) {
    const [{ postgresStore }, { default: pg }] = await Promise.all([
      import("nevertwice/stores/postgres"),
      import("pg"),
    ]);
    const client = new pg.Pool({ connectionString: url, max: 10 });
    const store = postgresStore({ client });
    await store.migrate();
    return { store, close: () => client.end() };
  },

  async sqlite({ file }) {
    const { sqliteStore } = await import("nevertwice/stores/sqlite");
    return { store: sqliteStore({ file }) };
  },
};
