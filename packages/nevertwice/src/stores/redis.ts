/**
 * Records in Redis: a string for each record and a script for each step, which uses the server's clock and takes one round
 * trip. The common claims have a shorter script, whose answer the client judges (redis/quick-claims.ts): a claim that finds
 * anything but an outcome or another owner takes a second trip. Calls of one step that arrive together share a script. Redis
 * removes expired records itself. Only a server that evicts nothing is safe.
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
import { isWriteRefused, translateErrors } from "./redis/errors.ts";
import { claimQuickly, isQuick, UNDECIDED } from "./redis/quick-claims.ts";
import { escapeLine, formatMs } from "./redis/record-text.ts";
import { checkReadable, listRecords, parseRecord, type RecordSource, stepsText } from "./redis/records.ts";
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
        // An unreachable Redis fails all calls. Any other error may concern one call: send them one by one. A Redis that
        // refuses writes still answers the calls that write nothing.
        if (isNevertwiceError(error) && error.code !== "store-unsafe" && !isWriteRefused(error))
          return calls.map(() => error);
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
  // With replicas, a claim that finds an outcome must write, so that WAIT has something to wait for.
  const quickClaims = isReplicated
    ? undefined
    : batch((requests: readonly ClaimRequest[]) => claimQuickly(evaluate, toKey, requests), countLines);
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

  /** Answers each id with the server's time and the text of its record. */
  const reads = batch(async (ids: readonly string[]) => {
    const [time, ...found] = (await source.read(ids, "")) as readonly unknown[];
    return ids.map((_, index) => [time, found[index]]);
  });

  const store: Store = {
    async claim(request) {
      const checking = safety.check();
      if (checking !== undefined) await checking;
      if (quickClaims !== undefined && isQuick(request)) {
        const answer = await quickClaims.run(request);
        if (isNevertwiceError(answer)) throw answer;
        if (answer !== UNDECIDED) return answer as ClaimAnswer;
      }
      const { id } = request;
      return claimAnswer(request, checkAnswer(id, await claims.run({ id, args: claimArguments(request) })));
    },
    async complete({ id, token, outcome, retentionMs }) {
      const args = [escapeLine(token), formatMs(retentionMs), outcome];
      return isDone(id, await completions.run({ id, args }));
    },
    abandon: async ({ id, token, as }) =>
      isDone(id, await abandons.run({ id, args: [escapeLine(token), as] })),
    renew: async ({ id, token, leaseMs }) =>
      isDone(id, await renewals.run({ id, args: [escapeLine(token), formatMs(leaseMs)] })),
    async keepStep(request) {
      const { id, token } = request;
      const { start, end } = stepLine(request);
      return isDone(id, await finishedSteps.run({ id, args: [escapeLine(token), start, end] }));
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

/** About how many characters a claim adds to its script. */
function countLines({ token, fingerprint = "", parts }: ClaimRequest): number {
  return token.length + fingerprint.length + parts.scope.length + parts.key.length;
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
    escapeLine(token),
    formatMs(leaseMs),
    formatMs(retentionMs),
    hold ? "1" : "0",
    fence,
    partsText(parts),
    escapeLine(fingerprint),
  ];
}

/** Returns the answer of a script. Throws if it is an error, or if the script could not read the record. */
function checkAnswer(id: string, answer: unknown): unknown {
  if (isNevertwiceError(answer)) throw answer;
  checkReadable(id, answer);
  return answer;
}

function claimAnswer({ id, token }: ClaimRequest, reply: unknown): ClaimAnswer {
  const [status, first, number, tookOver, lines] = reply as [ClaimAnswer["status"], ...unknown[]];
  switch (status) {
    case "new": {
      const fence = Number(first);
      const granted = { status, fence, number: Number(number), tookOver: Number(tookOver) === 1 };
      if (typeof lines !== "string") return granted;
      return { ...granted, steps: stepsIn(id, { token, steps: stepsText(token, lines) }) };
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
  const [time, stored] = reply as [unknown, unknown];
  if (stored === null) return undefined;
  const record = parseRecord(id, stored);
  return isExpired(record, Number(time)) ? undefined : viewOf(record, Number(time));
}
