/**
 * Records in Redis: a string for each record and a script for each step, which uses the server's clock and takes one round
 * trip. The common claims have a shorter script, whose answer the client judges (redis/quick-claims.ts): a claim that finds
 * anything but an outcome or another owner takes a second trip. Calls of one step that arrive together share a script. Redis
 * removes expired records itself. Only a server that evicts nothing is safe.
 */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isText, wholeFrom } from "../core/option-checks.ts";
import { isExpired, viewOf } from "../core/record.ts";
import type { ClaimAnswer, ClaimRequest, Store, StoreRecord } from "../core/store.ts";
import { adaptClient, type RedisClient, runScript } from "./redis/client.ts";
import { createSafetyCheck, judgeDurability, readServerFacts } from "./redis/durability.ts";
import { translateErrors } from "./redis/errors.ts";
import { createQuickClaims, isQuick, UNDECIDED } from "./redis/quick-claims.ts";
import { listRecords, parseRecord, type RecordSource } from "./redis/records.ts";
import { evaluateReplicated } from "./redis/replicas.ts";
import { createStepBatches } from "./redis/step-batches.ts";
import {
  ABANDON_STEP,
  CLAIM_STEP,
  CLAIM_STEP_REPLICATED,
  COMPLETE_STEP,
  claimSize,
  FORGET_STEP,
  KEEP_STEP_STEP,
  RENEW_STEP,
} from "./redis/steps.ts";
import { withWatch } from "./redis/watch.ts";
import { READ, READ_REPLICATED } from "./redis-lua.ts";

export type { RedisClient } from "./redis/client.ts";
export { type RedisWindowOptions, redisWindow } from "./redis/window.ts";

export interface RedisStoreOptions {
  /** `Redis` or `Cluster` of ioredis, or a connected client from `createClient` or `createCluster` of node-redis. */
  readonly client: RedisClient;
  /** A second connection, for pub/sub only. Without it, waiters poll. */
  readonly subscriber?: RedisClient | undefined;
  /** The prefix of every key; default `nevertwice:`. */
  readonly prefix?: string | undefined;
  /** How many replicas must have a claim or step before it counts (WAIT); default 0. Not on a cluster. */
  readonly replicas?: number | undefined;
  /** How long a step waits for the replicas; default 1,000. */
  readonly replicasTimeoutMs?: number | undefined;
}

const PREFIX = "nevertwice:";
const REPLICAS_TIMEOUT_MS = 1_000;

export function redisStore(options: RedisStoreOptions): Store {
  checkOptions(options, {
    client: adaptClient,
    subscriber: adaptClient,
    prefix: isText,
    replicas: wholeFrom(0),
    replicasTimeoutMs: wholeFrom(1),
  });
  const { client, subscriber, prefix = PREFIX, replicas = 0 } = options;
  const adapter = adaptClient("client", client);
  checkCombination(options, adapter.isCluster);
  const { sent, stored } = adapter.prefixes(prefix);
  const timeoutMs = options.replicasTimeoutMs ?? REPLICAS_TIMEOUT_MS;
  const listeners = adapter.listen();
  const safety = createSafetyCheck(adapter, listeners);
  const isReplicated = replicas > 0;
  const evaluate = isReplicated
    ? evaluateReplicated(adapter, listeners, { replicas, timeoutMs })
    : adapter.evaluate;

  const toKey = (id: string): string => `${sent}{${id}}`;

  const batches = createStepBatches({ isCluster: adapter.isCluster, evaluate, toKey });
  const claims = batches.ofStep(isReplicated ? CLAIM_STEP_REPLICATED : CLAIM_STEP);
  // With replicas, a claim that finds an outcome must write, so that WAIT has something to wait for.
  const claimQuickly = createQuickClaims({ adapter, losses: listeners.losses, toKey });
  const quickClaims = isReplicated
    ? undefined
    : batches.of(async (requests: readonly ClaimRequest[]) => {
        const answers = await claimQuickly(requests);
        return answers.map((answer, index) =>
          answer === UNDECIDED ? claims.run(requests[index] as ClaimRequest) : answer,
        );
      }, claimSize);
  const completions = batches.ofStep(COMPLETE_STEP);
  const renewals = batches.ofStep(RENEW_STEP);
  const abandons = batches.ofStep(ABANDON_STEP);
  const erasures = batches.ofStep(FORGET_STEP);
  const finishedSteps = batches.ofStep(KEEP_STEP_STEP);

  function claim(request: ClaimRequest): Promise<ClaimAnswer> {
    return quickClaims !== undefined && isQuick(request) ? quickClaims.run(request) : claims.run(request);
  }

  const readScript = isReplicated ? READ_REPLICATED : READ;
  const source: RecordSource = {
    adapter,
    prefix: stored,
    read: (ids, start) =>
      runScript(evaluate, readScript, [readScript.sha, String(ids.length), ...ids.map(toKey), start]),
  };

  const reads = batches.of(async (ids: readonly string[]) => {
    const [time, ...found] = (await source.read(ids, "")) as readonly unknown[];
    return ids.map(async (id, index) => toStoreRecord(id, Number(time), found[index]));
  });

  const store: Store = {
    claim(request) {
      const checking = safety.check();
      return checking === undefined ? claim(request) : checking.then(() => claim(request));
    },
    complete: (request) => completions.run(request),
    abandon: (request) => abandons.run(request),
    renew: (request) => renewals.run(request),
    keepStep: (request) => finishedSteps.run(request),
    forget: (request) => erasures.run(request),
    read: (id) => reads.run(id),
    async purge() {
      return { removed: 0, more: false };
    },
    collectsItself: true,
    list: (request) => translateErrors(listRecords(source, request)),
    async settings() {
      return judgeDurability(await translateErrors(adapter.masters().then(readServerFacts)), replicas);
    },
    close: async () => listeners.stop(),
  };
  return subscriber === undefined ? store : withWatch(store, subscriber, stored);
}

function checkCombination({ client, subscriber, replicas = 0 }: RedisStoreOptions, isCluster: boolean): void {
  if (subscriber === client)
    throw new NevertwiceError(
      "options-invalid",
      "subscriber must be another connection than client, such as client.duplicate(): a connection that subscribes can run no other command.",
    );
  if (replicas > 0 && isCluster)
    throw new NevertwiceError(
      "options-invalid",
      "replicas cannot be used with a cluster: its clients cannot send WAIT to the server that took the step.",
    );
}

function toStoreRecord(id: string, now: number, stored: unknown): StoreRecord | undefined {
  if (stored === null) return undefined;
  const record = parseRecord(id, stored);
  return isExpired(record, now) ? undefined : viewOf(record, now);
}
