/**
 * The Redis store: a hash for each record and a script for each step, which judges by the server's clock and is done in
 * one round trip. Calls of one step that come together go together. Redis removes what is past its time by itself. Only a server that evicts nothing is safe.
 */
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { partsText } from "../core/parts.ts";
import { checkOptions, isText, wholeFrom } from "../core/policy.ts";
import { isExpired, viewOf } from "../core/record.ts";
import type { ClaimAnswer, ClaimRequest, RecordState, Store, StoreRecord } from "../core/store.ts";
import { type Batch, createBatch } from "./batch.ts";
import { evaluated, settled } from "./redis/evaluation.ts";
import { readFacts } from "./redis/facts.ts";
import { type Evaluation, linkTo, type RedisClient } from "./redis/link.ts";
import { type Ground, listRecords } from "./redis/records.ts";
import { evaluateReplicated } from "./redis/replicas.ts";
import { judge, refusal } from "./redis/settings.ts";
import { keptFrom, type StoredFields, unreadable } from "./redis/stored.ts";
import { wakesBy } from "./redis/wakes.ts";
import { ABANDON, CLAIM, COMPLETE, FORGET, READ, RENEW, type Script, UNREADABLE } from "./redis-lua.ts";

export type { RedisClient } from "./redis/link.ts";
export { type RedisWindowOptions, redisWindow } from "./redis/window.ts";

export interface RedisStoreOptions {
  /** `Redis` or `Cluster` of ioredis, or what `createClient` or `createCluster` of node-redis makes, connected. */
  readonly client: RedisClient;
  /** A second connection, for pub/sub alone. Without it waiters poll. */
  readonly subscriber?: RedisClient | undefined;
  /** What every key begins with; default `nevertwice:`. */
  readonly prefix?: string | undefined;
  /** A claim or step counts only once so many replicas have it (WAIT); default 0. Not on a cluster. */
  readonly replicas?: number | undefined;
  /** How long a step waits for them; default 1,000. */
  readonly replicasTimeoutMs?: number | undefined;
}

const PREFIX = "nevertwice:";
const REPLICAS_TIMEOUT_MS = 1_000;
/** Of one step: a script of so many takes Redis less than half a millisecond, in which nobody else is served. */
const MAX_CALLS = 32;
const MAX_BYTES = 1_048_576;
const MAX_FLIGHTS = 2;

interface Call {
  readonly id: string;
  /** What its script asks for, in order. */
  readonly asked: readonly string[];
}

export function redisStore(options: RedisStoreOptions): Store {
  checkOptions(options, {
    client: linkTo,
    subscriber: linkTo,
    prefix: isText,
    replicas: wholeFrom(0),
    replicasTimeoutMs: wholeFrom(1),
  });
  const { client, subscriber, prefix = PREFIX, replicas = 0 } = options;
  const link = linkTo("client", client);
  checkTogether(options, link.isCluster);
  const { sent, kept } = link.prefixes(prefix);
  const timeoutMs = options.replicasTimeoutMs ?? REPLICAS_TIMEOUT_MS;
  const evaluate = replicas === 0 ? link.evaluate : evaluateReplicated(link, { replicas, timeoutMs });
  let isKnownSafe = false;
  let checking: Promise<void> | undefined;

  const keyOf = (id: string): string => `${sent}{${id}}`;

  /** Calls that go together where one server has all keys: each is answered by `ask`, or with why there is no answer. */
  function together<Asked>(
    ask: (calls: readonly Asked[]) => Promise<readonly unknown[]>,
    bytesOf?: (call: Asked) => number,
  ): Batch<Asked, unknown> {
    const send = async (calls: readonly Asked[]): Promise<readonly unknown[]> => {
      try {
        return await ask(calls);
      } catch (error) {
        // What is wrong with Redis is so for all of them; what may be wrong with one is found out one by one.
        if (isNevertwiceError(error)) return calls.map(() => error);
        throw error;
      }
    };
    const alone = async (call: Asked): Promise<unknown> => (await send([call]))[0];
    if (link.isCluster) return { run: alone };
    return createBatch({
      send,
      alone,
      sizeOf: bytesOf,
      maxCalls: MAX_CALLS,
      maxBytes: MAX_BYTES,
      maxFlights: MAX_FLIGHTS,
    });
  }

  /** Calls of one step. */
  function lane(script: Script): Batch<Call, unknown> {
    return together(async (calls) => {
      const keys = calls.map(({ id }) => keyOf(id));
      const asked = calls.flatMap((call) => call.asked);
      const args: Evaluation = [script.sha, String(calls.length), ...keys, ...asked];
      return (await evaluated(evaluate, script, args)) as readonly unknown[];
    }, sizeOf);
  }

  const claims = lane(CLAIM);
  const completions = lane(COMPLETE);
  const renewals = lane(RENEW);
  const abandons = lane(ABANDON);
  const erasures = lane(FORGET);

  const ground: Ground = {
    link,
    kept,
    run: (script, ids, ...args) =>
      evaluated(link.evaluate, script, [script.sha, String(ids.length), ...ids.map(keyOf), ...args]),
  };

  /** Each with the time that judges it. */
  const reads = together(async (ids: readonly string[]) => {
    const [time, ...found] = (await ground.run(READ, ids, "")) as readonly unknown[];
    return ids.map((_, index) => [time, found[index]]);
  });

  async function checkSafety(): Promise<void> {
    try {
      const servers = await settled(link.masters().then(readFacts));
      const refused = servers.map(refusal).find((reason) => reason !== undefined);
      if (refused !== undefined) throw new NevertwiceError("store-unsafe", `${refused}.`);
      isKnownSafe = true;
    } finally {
      checking = undefined;
    }
  }

  const store: Store = {
    async claim(request) {
      if (!isKnownSafe) {
        checking ??= checkSafety();
        await checking;
      }
      return claimAnswer(told(await claims.run({ id: request.id, asked: askedBy(request) })));
    },
    async complete({ id, token, outcome, retentionMs }) {
      return isDone(await completions.run({ id, asked: [token, whole(retentionMs), outcome] }));
    },
    abandon: async ({ id, token, as }) => isDone(await abandons.run({ id, asked: [token, as] })),
    renew: async ({ id, token, leaseMs }) =>
      isDone(await renewals.run({ id, asked: [token, whole(leaseMs)] })),
    forget: async ({ id, fence, reopen = false }) =>
      isDone(await erasures.run({ id, asked: [String(fence), reopen ? "1" : "0"] })),
    read: async (id) => recordFrom(id, told(await reads.run(id))),
    async purge() {
      return { removed: 0, more: false };
    },
    collectsItself: true,
    list: (request) => settled(listRecords(ground, request)),
    async settings() {
      return judge(await settled(link.masters().then(readFacts)), replicas);
    },
    async close() {},
  };
  return subscriber === undefined ? store : { ...store, ...watching(subscriber, kept) };
}

function checkTogether({ client, subscriber, replicas = 0 }: RedisStoreOptions, isCluster: boolean): void {
  if (subscriber === client)
    throw new NevertwiceError(
      "options-invalid",
      "subscriber must be a connection of its own (client.duplicate()): one that subscribes can do nothing else.",
    );
  if (replicas > 0 && isCluster)
    throw new NevertwiceError(
      "options-invalid",
      "replicas cannot be asked for on a cluster: its clients cannot send WAIT to the server that took the step.",
    );
}

function sizeOf({ asked }: Call): number {
  return asked.reduce((sum, text) => sum + text.length, 0);
}

/** The scripts keep whole milliseconds. Rounded up: nothing ends sooner than was asked for. */
function whole(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)));
}

function askedBy({
  token,
  leaseMs,
  retentionMs,
  hold,
  takeover,
  parts,
  fingerprint = "",
}: ClaimRequest): string[] {
  const fence = takeover === undefined ? "" : String(takeover);
  return [token, whole(leaseMs), whole(retentionMs), hold ? "1" : "0", fence, partsText(parts), fingerprint];
}

/** What a script answered, unless it could not. */
function told(answer: unknown): unknown {
  if (isNevertwiceError(answer)) throw answer;
  if (Array.isArray(answer) && answer[0] === UNREADABLE) throw unreadable(String(answer[1]));
  return answer;
}

function claimAnswer(reply: unknown): ClaimAnswer {
  const [status, first, number, tookOver] = reply as [ClaimAnswer["status"], unknown, unknown, unknown];
  switch (status) {
    case "new":
      return { status, fence: Number(first), number: Number(number), tookOver: Number(tookOver) === 1 };
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

function isDone(answer: unknown): boolean {
  return Number(told(answer)) === 1;
}

function recordFrom(id: string, reply: unknown): StoreRecord | undefined {
  const [time, fields] = reply as [unknown, StoredFields | null];
  if (fields === null) return undefined;
  const record = keptFrom(id, fields);
  return isExpired(record, Number(time)) ? undefined : viewOf(record, Number(time));
}

function watching(subscriber: RedisClient, kept: string): Required<Pick<Store, "watch" | "close">> {
  const wakes = wakesBy(subscriber);
  const ends = new Set<() => void>();
  return {
    async watch({ id, wake }) {
      const unwatch = await wakes.watch(`${kept}{${id}}`, wake);
      const end = () => {
        ends.delete(end);
        unwatch();
      };
      ends.add(end);
      return end;
    },
    async close() {
      for (const end of [...ends]) end();
    },
  };
}
