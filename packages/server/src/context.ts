/** What all parts of one server share: the store, access, live figures, and the guards of each namespace. */
import { createGuard, type Guard, type Observer, type Store } from "nevertwice";
import { type Claims, createClaims } from "nevertwice/claims";
import type { Outbox } from "nevertwice/outbox";
import type { Reservations } from "nevertwice/reservations";
import type { Access } from "./access.ts";
import type { SharedFigures } from "./figures/figures.ts";
import type { Door } from "./figures/tally.ts";
import type { Live } from "./live.ts";
import { createPipelines, type Pipelines } from "./pipelines/pipelines.ts";
import type { ServerSettings } from "./server-settings.ts";

export interface Context {
  readonly settings: ServerSettings;
  readonly store: Store;
  readonly access: Access;
  readonly live: Live;
  readonly figures: SharedFigures;
  /** The guard of a namespace for keys, events or the gateway. Their calls are counted apart. */
  guard(namespace: string, door?: Exclude<Door, "claims">): Guard;
  /** The claims of a namespace, for work that clients do in their own processes. */
  claims(namespace: string): Claims;
  /** Undefined if the server has no store that can keep holds. */
  holds(namespace: string): Reservations | undefined;
  /** Undefined if the server has no database with an outbox. */
  outbox(namespace: string): Outbox | undefined;
  /** The networks that run in this process. */
  readonly pipelines: Pipelines;
  /** Closes pipelines, guards, claims, access and reservations. The code that opened the stores closes them. */
  close(): Promise<void>;
}

export interface ContextParts {
  readonly settings: ServerSettings;
  readonly store: Store;
  readonly access: Access;
  readonly live: Live;
  readonly figures: SharedFigures;
  /** Makes further observers for the guard and the claims of a namespace. */
  readonly createObservers: (namespace: string) => readonly Observer[];
  readonly createHolds: ((namespace: string) => Reservations) | undefined;
  readonly createOutbox: ((namespace: string) => Outbox) | undefined;
}

export function createContext({
  settings,
  store,
  access,
  live,
  figures,
  createObservers: observersOf,
  createHolds: holdsOf,
  createOutbox: outboxOf,
}: ContextParts): Context {
  const { lease: leaseMs, retention: retentionMs, drain: drainMs } = settings;
  const guards = new Map<string, Guard>();
  const claims = new Map<string, Claims>();
  const holds = new Map<string, Reservations>();
  const outboxes = new Map<string, Outbox>();

  /** Only the first guard purges in the background, since all of them share one store. */
  function purgeOnce(): { readonly purgeEveryMs?: 0 } {
    return guards.size + claims.size > 0 ? { purgeEveryMs: 0 } : {};
  }

  const guard: Context["guard"] = (namespace, door = "operator") =>
    findOrMake(guards, `${door} ${namespace}`, () =>
      createGuard({
        store,
        namespace,
        leaseMs,
        retentionMs,
        drainMs,
        observer: [live.observer(namespace), figures.observer(namespace, door), ...observersOf(namespace)],
        ...purgeOnce(),
      }),
    );
  const pipelines = createPipelines((namespace) => guard(namespace, "pipeline"));

  return {
    settings,
    store,
    access,
    live,
    figures,
    pipelines,
    guard,
    claims: (namespace) =>
      findOrMake(claims, namespace, () =>
        createClaims({
          store,
          namespace,
          leaseMs,
          retentionMs,
          drainMs,
          observer: [
            live.observerElsewhere(namespace),
            figures.observer(namespace, "claims"),
            ...observersOf(namespace),
          ],
          ...purgeOnce(),
        }),
      ),
    holds: (namespace) => holdsOf && findOrMake(holds, namespace, () => holdsOf(namespace)),
    outbox: (namespace) => outboxOf && findOrMake(outboxes, namespace, () => outboxOf(namespace)),
    async close() {
      await pipelines.close();
      await Promise.all([
        access.end(),
        ...[...guards.values(), ...claims.values()].map((ended) => ended.close()),
      ]);
      // After the guards, whose last events are counted too.
      await figures.end();
      await Promise.all([...holds.values()].map((reservations) => reservations.close()));
    },
  };
}

function findOrMake<T>(known: Map<string, T>, name: string, make: () => T): T {
  const found = known.get(name);
  if (found !== undefined) return found;
  const made = make();
  known.set(name, made);
  return made;
}
