/**
 * Records in Redis: a hash for each record and a script for each step, which uses the server's clock and takes one round
 * trip. Calls of one step that arrive together share a script. Redis removes expired records itself. Only a server that
 * evicts nothing is safe.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { stepLine, stepsIn } from "../core/kept-steps.ts";
import { checkOptions, isText, wholeFrom } from "../core/option-checks.ts";
import { partsText } from "../core/parts.ts";
import { isExpired, viewOf } from "../core/record.ts";
import type { ClaimAnswer, ClaimRequest, RecordState, Store, StoreRecord } from "../core/store.ts";
import { type CallBatch, createBatch } from "./batch.ts";
import { adaptClient, type Evaluation, type RedisClient, runScript } from "./redis/client.ts";
import { createSafetyCheck, judgeDurability, readServerFacts } from "./redis/durability.ts";
import { translateErrors } from "./redis/errors.ts";
import {
  checkReadable,
  listRecords,
  parseRecord,
  type RecordSource,
  type StoredFields,
} from "./redis/records.ts";
import { evaluateReplicated } from "./redis/replicas.ts";
import { withWatch } from "./redis/watch.ts";
import {
  ABANDON,
  CLAIM,
  CLAIM_REPLICATED,
  COMPLETE,
  FORGET,
  KEEP_STEP,
  type LuaScript,
  READ,
  READ_REPLICATED,
  RENEW,
} from "./redis-lua.ts";

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
/** How many calls share a script. Redis serves no other client meanwhile, for less than half a millisecond. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
const MAX_FLIGHTS = 2;

interface ScriptCall {
  readonly id: string;
  /** The arguments of its script, in order. */
  readonly args: readonly string[];
}

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

  /** Sends calls together, except on a cluster, where their keys are on different servers. An answer may be an error. */
  function batch<Call>(
    sendAll: (calls: readonly Call[]) => Promise<readonly unknown[]>,
    sizeOf?: (call: Call) => number,
  ): CallBatch<Call, unknown> {
    const send = async (calls: readonly Call[]): Promise<readonly unknown[]> => {
      try {
        return await sendAll(calls);
      } catch (error) {
        // A Redis that is unreachable or full fails all calls. Any other error may concern one call: send them one by one.
        if (isNevertwiceError(error) && error.code !== "store-unsafe") return calls.map(() => error);
        throw error;
      }
    };
    const alone = async (call: Call): Promise<unknown> => (await send([call]))[0];
    if (adapter.isCluster) return { run: alone };
    return createBatch({
      send,
      alone,
      sizeOf,
      maxCalls: MAX_CALLS,
      maxBytes: MAX_BYTES,
      maxFlights: MAX_FLIGHTS,
    });
  }

  function batchStep(script: LuaScript): CallBatch<ScriptCall, unknown> {
    return batch(async (calls) => {
      const keys = calls.map(({ id }) => toKey(id));
      const values = calls.flatMap(({ args }) => args);
      const evaluation: Evaluation = [script.sha, String(calls.length), ...keys, ...values];
      return (await runScript(evaluate, script, evaluation)) as readonly unknown[];
    }, countCharacters);
  }

  const claims = batchStep(isReplicated ? CLAIM_REPLICATED : CLAIM);
  const completions = batchStep(COMPLETE);
  const renewals = batchStep(RENEW);
  const abandons = batchStep(ABANDON);
  const erasures = batchStep(FORGET);
  const finishedSteps = batchStep(KEEP_STEP);

  const readScript = isReplicated ? READ_REPLICATED : READ;
  const source: RecordSource = {
    adapter,
    prefix: stored,
    read: (ids, start) =>
      runScript(evaluate, readScript, [readScript.sha, String(ids.length), ...ids.map(toKey), start]),
  };

  /** Answers each id with the server's time and the fields of its record. */
  const reads = batch(async (ids: readonly string[]) => {
    const [time, ...found] = (await source.read(ids, "")) as readonly unknown[];
    return ids.map((_, index) => [time, found[index]]);
  });

  const store: Store = {
    async claim(request) {
      const checking = safety.check();
      if (checking !== undefined) await checking;
      const { id } = request;
      return claimAnswer(request, checkAnswer(id, await claims.run({ id, args: claimArguments(request) })));
    },
    async complete({ id, token, outcome, retentionMs }) {
      return isDone(id, await completions.run({ id, args: [token, formatMs(retentionMs), outcome] }));
    },
    abandon: async ({ id, token, as }) => isDone(id, await abandons.run({ id, args: [token, as] })),
    renew: async ({ id, token, leaseMs }) =>
      isDone(id, await renewals.run({ id, args: [token, formatMs(leaseMs)] })),
    async keepStep(request) {
      const { id, token } = request;
      const { start, end } = stepLine(request);
      return isDone(id, await finishedSteps.run({ id, args: [token, start, end] }));
    },
    forget: async ({ id, fence, reopen = false }) =>
      isDone(id, await erasures.run({ id, args: [String(fence), reopen ? "1" : "0"] })),
    read: async (id) => toStoreRecord(id, checkAnswer(id, await reads.run(id))),
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

function countCharacters({ args }: ScriptCall): number {
  return args.reduce((sum, text) => sum + text.length, 0);
}

/** The scripts use whole milliseconds. Rounded up: nothing ends earlier than the caller requested. */
function formatMs(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)));
}

function claimArguments({
  token,
  leaseMs,
  retentionMs,
  hold,
  takeover,
  parts,
  fingerprint = "",
}: ClaimRequest): string[] {
  const fence = takeover === undefined ? "" : String(takeover);
  return [
    token,
    formatMs(leaseMs),
    formatMs(retentionMs),
    hold ? "1" : "0",
    fence,
    partsText(parts),
    fingerprint,
  ];
}

/** Returns the answer of a script. Throws if it is an error, or if the script could not read the record. */
function checkAnswer(id: string, answer: unknown): unknown {
  if (isNevertwiceError(answer)) throw answer;
  checkReadable(id, answer);
  return answer;
}

function claimAnswer({ id, token }: ClaimRequest, reply: unknown): ClaimAnswer {
  const [status, first, number, tookOver, steps] = reply as [ClaimAnswer["status"], ...unknown[]];
  switch (status) {
    case "new": {
      const fence = Number(first);
      const granted = { status, fence, number: Number(number), tookOver: Number(tookOver) === 1 };
      return typeof steps === "string" ? { ...granted, steps: stepsIn(id, { token, steps }) } : granted;
    }
    case "pending":
      return { status, leaseLeftMs: Number(first) };
    case "completed":
      return { status, outcome: first as string };
    case "conflict":
      return { status, state: first as RecordState };
    case "unknown":
      return { status, fence: Number(first) };
  }
}

function isDone(id: string, answer: unknown): boolean {
  return Number(checkAnswer(id, answer)) === 1;
}

function toStoreRecord(id: string, reply: unknown): StoreRecord | undefined {
  const [time, fields] = reply as [unknown, StoredFields | null];
  if (fields === null) return undefined;
  const record = parseRecord(id, fields);
  return isExpired(record, Number(time)) ? undefined : viewOf(record, Number(time));
}
