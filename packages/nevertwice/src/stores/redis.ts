/**
 * The Redis store: a hash for each record and a script for each step, which judges by the server's clock and is done in
 * one round trip. Redis removes what is past its time by itself. Only a server that evicts nothing is safe.
 */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isText, wholeFrom } from "../core/policy.ts";
import { isExpired, viewOf } from "../core/record.ts";
import type { ClaimAnswer, ClaimRequest, RecordState, Store, StoreRecord } from "../core/store.ts";
import { readFacts } from "./redis/facts.ts";
import { failureOf, isNoScript } from "./redis/failures.ts";
import { type Evaluation, linkTo, type RedisClient } from "./redis/link.ts";
import { type Ground, listRecords } from "./redis/records.ts";
import { evaluateReplicated } from "./redis/replicas.ts";
import { judge, refusal } from "./redis/settings.ts";
import { keptFrom, partsText, type StoredFields } from "./redis/stored.ts";
import { wakesBy } from "./redis/wakes.ts";
import { ABANDON, CLAIM, COMPLETE, FORGET, READ, RENEW, type Script } from "./redis-lua.ts";

export type { RedisClient } from "./redis/link.ts";

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
  const step = (script: Script, args: Evaluation): Promise<unknown> => send(evaluate, script, args);

  const ground: Ground = {
    link,
    kept,
    run: (script, ids, ...args) =>
      send(link.evaluate, script, [script.sha, String(ids.length), ...ids.map(keyOf), ...args]),
  };

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
      return claimAnswer(await step(CLAIM, claimArguments(keyOf(request.id), request)));
    },
    async complete({ id, token, outcome, retentionMs }) {
      return isDone(await step(COMPLETE, [COMPLETE.sha, "1", keyOf(id), token, whole(retentionMs), outcome]));
    },
    async abandon({ id, token, as }) {
      return isDone(await step(ABANDON, [ABANDON.sha, "1", keyOf(id), token, as]));
    },
    async renew({ id, token, leaseMs }) {
      return isDone(await step(RENEW, [RENEW.sha, "1", keyOf(id), token, whole(leaseMs)]));
    },
    async forget({ id, fence }) {
      return isDone(await step(FORGET, [FORGET.sha, "1", keyOf(id), String(fence)]));
    },
    async read(id) {
      return recordFrom(id, await ground.run(READ, [id], ""));
    },
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

/** Where the server does not have the script yet, it is sent the whole of it. */
async function send(
  evaluate: Ground["link"]["evaluate"],
  script: Script,
  args: Evaluation,
): Promise<unknown> {
  try {
    return await evaluate("EVALSHA", args);
  } catch (error) {
    if (!isNoScript(error)) throw failureOf(error);
  }
  const [, keyCount, ...rest] = args;
  return settled(evaluate("EVAL", [script.text, keyCount, ...rest]));
}

async function settled<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    throw failureOf(error);
  }
}

/** The scripts keep whole milliseconds. Rounded up: nothing ends sooner than was asked for. */
function whole(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)));
}

function claimArguments(key: string, request: ClaimRequest): Evaluation {
  const { token, leaseMs, retentionMs, hold, takeover, parts, fingerprint } = request;
  const terms = [
    whole(leaseMs),
    whole(retentionMs),
    hold ? "1" : "0",
    takeover === undefined ? "" : `${takeover}`,
  ];
  const args: Evaluation = [CLAIM.sha, "1", key, token, ...terms, partsText(parts)];
  if (fingerprint !== undefined) args.push(fingerprint);
  return args;
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

function isDone(reply: unknown): boolean {
  return Number(reply) === 1;
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
