/** Errors with a hint for the arguments that callers most often forget or confuse: the guard, the request and the store. */
import { NevertwiceError } from "./errors.ts";
import { describeType } from "./identity.ts";
import type { Store } from "./store.ts";

/** Throws `options-invalid` unless `guard` is a guard. `usage` shows the call with the guard in its place. */
export function requireGuard(guard: unknown, usage: string): void {
  if (typeof (guard as { tryRun?: unknown } | null | undefined)?.tryRun === "function") return;
  throw new NevertwiceError("options-invalid", `the guard is missing: ${usage}. createGuard makes one.`);
}

/** Throws `options-invalid` unless the request is an object. Callers often pass the key alone, so the value is not shown. */
export function requireRequest(request: unknown): void {
  if (typeof request === "object" && request !== null) return;
  throw new NevertwiceError(
    "options-invalid",
    `the request is ${describeType(request)}; it must be an object that names the work: { operation: "charge", key }.`,
  );
}

type Shape = Readonly<Record<string, unknown>>;
const has = (value: Shape, ...names: readonly string[]) => names.every((name) => name in value);

/** Database clients that are often passed in place of a store. Each is recognised by members that only it has. */
const CLIENTS: readonly (readonly [is: (value: Shape) => boolean, hint: string])[] = [
  [
    (value) => has(value, "$transaction", "$queryRaw"),
    "a Prisma client; hand the database's own pool to postgresStore({ client: pool }) or mysqlStore({ client: pool })",
  ],
  [
    (value) => has(value, "defineCommand", "duplicate") || has(value, "sendCommand", "isOpen"),
    "a Redis client; write redisStore({ client })",
  ],
  [(value) => has(value, "getConnection", "execute"), "a MySQL pool; write mysqlStore({ client: pool })"],
  [(value) => has(value, "query", "connect"), "a Postgres client; write postgresStore({ client: pool })"],
  [(value) => has(value, "send", "config"), "an AWS client; write dynamodbStore({ client, table })"],
  [(value) => has(value, "prepare", "exec"), "a SQLite database; write sqliteStore({ database })"],
];

/** What a value that is not a store probably is; undefined if it is not recognised. */
function storeHint(value: unknown): string | undefined {
  if (typeof value === "function") return "a function; call it: store: memoryStore()";
  if (typeof value === "string")
    return "a string; openStore(url) of nevertwice/stores/open opens the store of a URL";
  if (typeof value !== "object" || value === null) return undefined;
  if ("then" in value) return "a promise; await it";
  return CLIENTS.find(([is]) => is(value as Shape))?.[1];
}

/** Throws `options-invalid` if the value is not a store. */
export function isStore(name: string, value: unknown): void {
  const methods = ["claim", "complete", "abandon", "renew", "read", "purge", "close"] as const;
  const missing = methods.filter(
    (method) => typeof (value as Partial<Store> | null)?.[method] !== "function",
  );
  if (missing.length === 0) return;
  const hint = storeHint(value);
  throw new NevertwiceError(
    "options-invalid",
    hint === undefined
      ? `${name} is not a store: it lacks ${missing.join(", ")}.`
      : `${name} is not a store: it is ${hint}.`,
  );
}
