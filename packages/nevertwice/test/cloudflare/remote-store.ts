/** A store inside workerd, as seen from a test: each call is a request to the Worker `store-calls.ts`. */
import { NevertwiceError } from "../../src/core/errors.ts";
import type { Store } from "../../src/core/store.ts";
import type { Runtime } from "./runtime.ts";
import type { Traffic } from "./workers/observed-bindings.ts";

type Calls = Pick<Store, "claim" | "complete" | "abandon" | "renew" | "read" | "purge"> &
  Required<Pick<Store, "list" | "forget">>;

export interface RemoteStore extends Calls {
  keepStep: NonNullable<Store["keepStep"]>;
  migrate(): Promise<void>;
  diagnose(): Promise<string>;
  /** Claims and completes this many keys. */
  fill(keys: number): Promise<void>;
  /** Watches until the waiter is woken, or for `stopMs`. */
  wake(argument: { readonly id: string; readonly stopMs?: number }): Promise<{ readonly afterMs?: number }>;
  /** A request that only objects of tests understand, to the first object. */
  first(argument: { readonly path: string; readonly body?: string }): Promise<unknown>;
  /** Statements on the D1 database. */
  sql(statements: readonly string[]): Promise<readonly { readonly results: readonly object[] }[]>;
  /** Sets, and returns, what the bindings count and lose. */
  traffic(changes?: Partial<Traffic>): Promise<Traffic>;
  /** How many requests the last call took. */
  trips(): number;
}

const METHODS = [
  ...["claim", "complete", "abandon", "renew", "read", "purge", "list", "forget", "keepStep", "migrate"],
  ...["diagnose", "fill", "wake", "first", "sql", "traffic"],
];

interface Reply {
  readonly value?: unknown;
  readonly error?: { readonly code: never; readonly message: string };
  readonly trips: number;
}

export function remoteStore(runtime: Pick<Runtime, "post">, options: object = {}): RemoteStore {
  let trips = 0;
  const call = async (method: string, argument?: unknown): Promise<unknown> => {
    const reply = await runtime.post<Reply>("/", { options: JSON.stringify(options), method, argument });
    trips = reply.trips;
    if (reply.error === undefined) return reply.value;
    const { code, message } = reply.error;
    throw code === undefined
      ? new Error(message)
      : new NevertwiceError(code, message.slice(`${code}: `.length));
  };
  const calls = METHODS.map((method) => [method, (argument: unknown) => call(method, argument)]);
  return { ...Object.fromEntries(calls), trips: () => trips };
}
