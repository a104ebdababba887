/**
 * Records in Redis: a string for each record and a script for each step, which uses the server's clock and takes one round
 * trip. The common claims have a shorter script, whose answer the client judges (redis/quick-claims.ts): a claim that finds
 * anything but an outcome or another owner takes a second trip. Calls of one step that arrive together share a script. Redis
 * removes expired records itself. Only a server that evicts nothing is safe.
 */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isText, wholeFrom } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";
import { turnsFor } from "./in-turn.ts";
import { adaptClient, type RedisAdapter, type RedisClient } from "./redis/client.ts";
import type { ClientListeners } from "./redis/client-listeners.ts";
import { replicatedCluster } from "./redis/cluster-replicas.ts";
import { readSettings } from "./redis/durability.ts";
import { evaluateReplicated, type Replication } from "./redis/replicas.ts";
import { createSafetyCheck } from "./redis/safety-check.ts";
import { createScriptStore, DEFAULT_PREFIX } from "./redis/script-store.ts";
import { CLAIM_STEP, CLAIM_STEP_REPLICATED } from "./redis/steps.ts";
import { withWatch } from "./redis/watch.ts";

export type { RedisClient } from "./redis/client.ts";
export { type RedisWindowOptions, redisWindow } from "./redis/window.ts";

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /** `Redis` or `Cluster` of ioredis, or a connected client of node-redis (`createClient`, `createCluster`, `createSentinel`). */
  readonly client: RedisClient;
  /** A second connection, for pub/sub only. Without it, waiters poll. */
  readonly subscriber?: RedisClient | undefined;
  /**
   * The prefix of every key; default `nevertwice:`.
   * @default "nevertwice:"
   */
  readonly prefix?: string | undefined;
  /**
   * How many replicas must have a claim or step before it counts (WAIT). Not with `createSentinel`.
   * @default 0
   */
  readonly replicas?: number | undefined;
  /**
   * How long a step waits for the replicas.
   * @default 1_000 (1 s)
   */
  readonly replicasTimeoutMs?: number | undefined;
}

const REPLICAS_TIMEOUT_MS = 1_000;

/**
 * Keeps records in Redis, or in a Redis Cluster. Each step is one script.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Redis } from "ioredis";
 * import { createGuard } from "nevertwice";
 * import { redisStore } from "nevertwice/stores/redis";
 *
 * const store = redisStore({ client: new Redis(), subscriber: new Redis() });
 * export const guard = createGuard({ store });
 * ```
 */
export function redisStore(options: RedisStoreOptions): Store {
  checkOptions(options, {
    client: adaptClient,
    subscriber: adaptClient,
    prefix: isText,
    replicas: wholeFrom(0),
    replicasTimeoutMs: wholeFrom(1),
  });
  const { client, subscriber, prefix = DEFAULT_PREFIX, replicas = 0 } = options;
  const adapter = adaptClient("client", client);
  checkConnections(options, adapter);
  const timeoutMs = options.replicasTimeoutMs ?? REPLICAS_TIMEOUT_MS;
  const listeners = adapter.listen();
  const safety = createSafetyCheck(adapter, listeners);
  const isReplicated = replicas > 0;
  const { evaluate, nodes } = isReplicated
    ? replicated(adapter, listeners, { replicas, timeoutMs })
    : adapter;
  const { claim, ...steps } = createScriptStore({
    adapter: { ...adapter, nodes },
    evaluate,
    claimStep: isReplicated ? CLAIM_STEP_REPLICATED : CLAIM_STEP,
    isReplicated,
    isGrouped: true,
    // Waiters in other processes probably have the same kind of subscriber as this one.
    isSharded:
      adapter.isCluster && (subscriber === undefined || adaptClient("subscriber", subscriber).isSharded),
    losses: listeners.losses,
    prefix,
    // A few at once, since most of the time of a turn is its way to the server and back.
    pages: { turns: turnsFor(client, { lanes: 4 }), keysAtOnce: 250, longestMs: 1_000 },
  });

  const store: Store = {
    ...steps,
    claim(request) {
      const checking = safety.check();
      return checking === undefined ? claim(request) : checking.then(() => claim(request));
    },
    settings: () => readSettings(adapter, replicas),
    close: async () => listeners.stop(),
  };
  return subscriber === undefined ? store : withWatch(store, subscriber, adapter.prefixes(prefix).stored);
}

function replicated(
  adapter: RedisAdapter,
  listeners: ClientListeners,
  replication: Replication,
): Pick<RedisAdapter, "evaluate" | "nodes"> {
  const { nodes } = adapter;
  if (nodes !== undefined) return replicatedCluster(adapter, nodes, replication);
  return { evaluate: evaluateReplicated(adapter, listeners, replication) };
}

function checkConnections(
  { client, subscriber, replicas = 0 }: RedisStoreOptions,
  { mayRepeat }: RedisAdapter,
): void {
  if (subscriber === client)
    throw new NevertwiceError(
      "options-invalid",
      "subscriber must be another connection than client, such as client.duplicate(): a connection that subscribes can run no other command.",
    );
  if (replicas > 0 && mayRepeat)
    throw new NevertwiceError(
      "options-invalid",
      "replicas cannot be used with createSentinel of node-redis, which repeats a step on another connection; use ioredis with sentinels.",
    );
}
