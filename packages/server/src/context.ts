/** What all parts of one server share: the store, the guards of its namespaces, who may call, and what was seen. */
import { createGuard, type Guard, type GuardEvent, type Store } from "nevertwice";
import { type Claims, createClaims } from "nevertwice/claims";
import type { Reservations } from "nevertwice/reservations";
import type { Access } from "./access.ts";
import type { Live } from "./live.ts";
import type { Settings } from "./settings.ts";

export interface Context {
  readonly settings: Settings;
  readonly store: Store;
  readonly access: Access;
  readonly live: Live;
  /** The guard of a namespace: for keys, events and the gateway. */
  guard(namespace: string): Guard;
  /** Claims of a namespace whose work is done elsewhere. */
  claims(namespace: string): Claims;
  /** Undefined if the server has no store that can keep holds. */
  holds(namespace: string): Reservations | undefined;
  /** Ends guards and reservations; the stores are closed by whoever opened them. */
  close(): Promise<void>;
}

export interface ContextParts {
  readonly settings: Settings;
  readonly store: Store;
  readonly access: Access;
  readonly live: Live;
  /** Who else watches the guards and claims of a namespace. */
  readonly observersOf: (namespace: string) => readonly ((event: GuardEvent) => unknown)[];
  readonly holdsOf: ((namespace: string) => Reservations) | undefined;
}

export function createContext({
  settings,
  store,
  access,
  live,
  observersOf,
  holdsOf,
}: ContextParts): Context {
  const { lease: leaseMs, retention: retentionMs, drain: drainMs } = settings;
  const guards = new Map<string, Guard>();
  const claims = new Map<string, Claims>();
  const holds = new Map<string, Reservations>();

  return {
    settings,
    store,
    access,
    live,
    guard: (namespace) =>
      // One of them purges for all: the store is the same.
      once(guards, namespace, () =>
        createGuard({
          store,
          namespace,
          leaseMs,
          retentionMs,
          drainMs,
          observer: [live.observer(namespace), ...observersOf(namespace)],
          ...(guards.size > 0 && { purgeEveryMs: 0 }),
        }),
      ),
    claims: (namespace) =>
      once(claims, namespace, () =>
        createClaims({
          store,
          namespace,
          leaseMs,
          retentionMs,
          observer: [live.observerElsewhere(namespace), ...observersOf(namespace)],
        }),
      ),
    holds: (namespace) => holdsOf && once(holds, namespace, () => holdsOf(namespace)),
    async close() {
      await Promise.all([...guards.values()].map((guard) => guard.close()));
      await Promise.all([...holds.values()].map((reservations) => reservations.close()));
    },
  };
}

function once<T>(known: Map<string, T>, name: string, make: () => T): T {
  const found = known.get(name);
  if (found !== undefined) return found;
  const made = make();
  known.set(name, made);
  return made;
}
