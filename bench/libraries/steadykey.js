/** steadykey's execute-once runner on its own stores. */
import {
  IdempotencyManager,
  InMemoryIdempotencyStore,
  PostgresIdempotencyStore,
  RedisIdempotencyStore,
  SqliteIdempotencyStore,
} from "steadykey";

export async function create({ store: name, target, hasFingerprint }) {
  const { store, close } = await STORES[name](target);
  const options = { defaultTtlSeconds: 86_400 };
  // The closest it has to no fingerprint, and faster than any real one: the canonical text of null, unhashed.
  if (!hasFingerprint) options.hashFn = (canonical) => canonical;
  const manager = new IdempotencyManager(store, options);
  return {
    async run(key, body, work) {
      const payload = hasFingerprint ? body : null;
      return (await manager.execute(payload, work, { idempotencyKey: key })).value;
    },
    async close() {
      await close?.();
    },
  };
}

export const STORES = {
  async memory() {
    return { store: new InMemoryIdempotencyStore() };
  },

  async redis({ url }) {
    const { createClient } = await import("redis");
    const client = await createClient({ url }).connect();
    return { store: new RedisIdempotencyStore(client), close: () => client.close() };
  },

  async postgres({ url }) {
    const { default: pg } = await import("pg");
    const pool = new pg.Pool({ connectionString: url, max: 10 });
    return { store: new PostgresIdempotencyStore(pool), close: () => pool.end() };
  },

  async sqlite({ file }) {
    const { DatabaseSync } = await import("@photostructure/sqlite");
    const database = new DatabaseSync(file);
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    // It needs a handle with these three methods, and leaves it to the handle to prepare each statement once.
    const prepared = new Map();
    const statement = (sql) => {
      if (!prepared.has(sql)) prepared.set(sql, database.prepare(sql));
      return prepared.get(sql);
    };
    const store = new SqliteIdempotencyStore({
      exec: (sql) => database.exec(sql),
      run: (sql, values) => statement(sql).run(...values),
      get: (sql, values) => statement(sql).get(...values),
    });
    return { store, close: () => database.close() };
  },
};
