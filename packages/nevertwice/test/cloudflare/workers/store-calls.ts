/** A Worker that makes calls of a store for a test, each in a request of its own. The store is created at module level. */
import { env } from "cloudflare:workers";
import { diagnose } from "nevertwice/doctor";
import { type D1Database, d1Store } from "nevertwice/stores/d1";
import {
  type DurableObjectNamespace,
  type DurableObjectStoreOptions,
  durableObjectStore,
} from "nevertwice/stores/durable-objects";
import { toIdentity } from "../../../src/core/identity.ts";
import type { Store } from "../../../src/core/store.ts";
import { type Env, post, TestObject } from "./objects.ts";
import { observedDatabase, observedNamespace, traffic } from "./observed-bindings.ts";

export { PatientObject, ShortObject, TestObject } from "./objects.ts";

/** For a binding without a SQLite database. */
export class KeyValueObject extends TestObject {}

/** An object of another class. */
export class Stranger {
  fetch(): Response {
    return new Response("who is there?", { status: 418 });
  }
}

/** Throws while it is handed a call, or is away. */
export class Failing {
  fetch(): Response {
    throw new Error("broken on purpose");
  }
}

type Bindings = Env & Readonly<Record<string, DurableObjectNamespace>>;
const bindings = env as Bindings;
const databases = env as unknown as Readonly<Record<string, D1Database>>;

interface StoreOptions extends DurableObjectStoreOptions {
  /** The name of the binding; one that begins with DB is that of a D1 database. */
  readonly binding?: string;
}

const stores: Record<string, Store> = {};

function storeOf(options: string): Store {
  stores[options] ??= createStore(JSON.parse(options));
  return stores[options];
}

function createStore({ binding = "NEVERTWICE", ...options }: StoreOptions): Store {
  if (binding.startsWith("DB")) return d1Store(observedDatabase(databases[binding] as D1Database));
  return durableObjectStore(() => observedNamespace(bindings[binding] as DurableObjectNamespace), options);
}

/** Statements on the D1 database of a store; resolves to the results of each. */
async function runSql(options: string, statements: readonly string[]): Promise<unknown> {
  const { binding = "" } = JSON.parse(options) as StoreOptions;
  const database = databases[binding] as D1Database;
  return database.batch(statements.map((sql) => database.prepare(sql)));
}

/** A request that only objects of tests understand, to the first object of a store. */
async function toFirst(options: string, { path = "", body = "" }): Promise<unknown> {
  const { name = "nevertwice", shards = 16 } = JSON.parse(options) as StoreOptions;
  const text = await post({ namespace: bindings.NEVERTWICE, name, shards }, 0, path, body);
  return text === "" ? undefined : JSON.parse(text);
}

/** Claims and completes this many keys in the way of a guard, with a fingerprint and an outcome of a kilobyte. */
async function fill(store: Store, keys: number): Promise<void> {
  const terms = { leaseMs: 30_000, retentionMs: 86_400_000, hold: false, fingerprint: `1:${"f".repeat(64)}` };
  for (let number = 0; number < keys; number++) {
    const parts = { namespace: "shop", scope: "customer-17", operation: "charge", key: crypto.randomUUID() };
    const { id } = toIdentity(parts);
    const token = crypto.randomUUID();
    await store.claim({ id, parts, token, ...terms });
    await store.complete({ id, token, outcome: "x".repeat(1_000), retentionMs: terms.retentionMs });
  }
}

async function answer(store: Store, method: string, argument: unknown): Promise<unknown> {
  if (method === "diagnose") return String(await diagnose(store));
  if (method === "fill") return fill(store, argument as number);
  if (method === "wake") return wokenAfter(store, argument as { id: string; stopMs?: number });
  return (store[method as "read"] as (argument: unknown) => unknown).call(store, argument);
}

/** How long the waiter slept; undefined if it stopped waiting before. */
async function wokenAfter(store: Store, { id, stopMs = 60_000 }: { id: string; stopMs?: number }) {
  const startedAt = Date.now();
  return new Promise((resolve, reject) => {
    store.watch?.({ id, wake: () => resolve({ afterMs: Date.now() - startedAt }) }).then((stop) => {
      setTimeout(() => {
        stop();
        resolve({});
      }, stopMs);
    }, reject);
  });
}

interface Call {
  readonly options: string;
  readonly method: string;
  readonly argument: never;
}

async function answerCall({ options, method, argument }: Call): Promise<unknown> {
  if (method === "first") return toFirst(options, argument);
  if (method === "sql") return runSql(options, argument);
  if (method === "traffic") return Object.assign(traffic, argument);
  return answer(storeOf(options), method, argument);
}

export default {
  async fetch(request: Request): Promise<Response> {
    const before = traffic.sent;
    try {
      const value = await answerCall((await request.json()) as Call);
      return Response.json({ value, trips: traffic.sent - before });
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      return Response.json({ error: { code, message }, trips: traffic.sent - before });
    }
  },
};
