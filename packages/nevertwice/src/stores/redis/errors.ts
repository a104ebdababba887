/**
 * What the errors of ioredis, node-redis and the server mean to the caller. An error that the server answered is
 * `unavailable` only if a retry can help. Any other one means that the data or the server must not be used, which is
 * `store-unsafe`: no guard may continue without the store then. An error that is neither the server's nor the connection's is
 * returned unchanged.
 */
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { type DriverErrorMeaning, type DriverErrorTable, translateDriverError } from "../driver-errors.ts";

const UNREACHABLE: DriverErrorMeaning = { code: "unavailable", says: "Redis cannot be reached" };
const UNEXPECTED: DriverErrorMeaning = {
  code: "store-unsafe",
  says: "Redis answered with an error that the store does not expect: check its data and its settings",
};

/** `OOM command …`, and the same inside a script's error, in the form of servers before Redis 7. */
const REPLY = /^(?:ERR .*?user_script.*? -)?([A-Z]{3,})\b/;

/** What ioredis and node-redis call and say of a connection that does not exist, was lost, or is silent. */
const LOST = [
  /^(?:TimeoutError|AbortError):/,
  /connection is (?:already )?closed|connection.{0,20}(?:lost|reset|timeout|timed out)|connect ETIMEDOUT/i,
  /max retries per request|command (?:timed out|aborted)|stream isn't writeable|too many cluster redirections/i,
  /max number of clients reached|script killed by user|sentinels are (?:unreachable|available)|valid master node/i,
  /cluster isn't ready|none of startup nodes|failed to refresh slots|subscriber for the cluster/i,
  /client is (?:closed|offline)|socket (?:closed|timeout)|disconnects client|root nodes are unavailable|reconnect/i,
];

/** The classes that ioredis and node-redis use for an error that the server answered. */
const REPLIED = /^(?:ReplyError|ErrorReply|SimpleError|BlobError):/;

const SYSTEM = /^(?:E(?!RR_)[A-Z_]{3,}|NR_CLOSED|UNCERTAIN_STATE|CONNECTION_BROKEN)$/;

/** By the first word of the server's error. */
const TABLE: DriverErrorTable = {
  rules: [
    {
      codes: ["OOM"],
      code: "store-full",
      says: "Redis has reached its maxmemory and refuses writes: raise maxmemory, or shorten the retention of outcomes",
    },
    {
      codes: ["MISCONF"],
      code: "store-full",
      says: "Redis cannot write to its disk, so it refuses writes",
    },
    {
      codes: ["READONLY"],
      code: "unavailable",
      says: "this Redis is a read-only replica, or no longer the master",
    },
    {
      codes: ["MOVED", "ASK", "CROSSSLOT"],
      code: "store-unsafe",
      says: "this Redis is a node of a cluster: hand in a cluster client (ioredis Cluster, or createCluster of node-redis)",
    },
    {
      codes: ["WRONGTYPE"],
      code: "store-unsafe",
      says: "a key of the store contains another type of value: give every application on this Redis its own prefix",
    },
    {
      codes: ["DENIED"],
      code: "store-unsafe",
      says: "Redis is in protected mode and accepts no connection from this machine",
    },
    {
      codes: ["NOAUTH", "WRONGPASS"],
      code: "store-unsafe",
      says: "Redis refuses this user or password: hand in a client with credentials that it accepts",
    },
    {
      codes: ["NOPERM"],
      code: "store-unsafe",
      says: "this Redis user lacks a permission (a store needs EVALSHA, EVAL, TIME, EXISTS, GET, MGET, GETEX, SET, DEL, PEXPIREAT, PUBLISH, on a cluster SPUBLISH, with replicas WAIT; a window needs EVALSHA, EVAL, TIME, ZADD, ZRANGE, ZREMRANGEBYSCORE, PEXPIRE, DEL)",
    },
    { codes: ["LOADING"], code: "unavailable", says: "Redis is loading its data" },
    { codes: ["BUSY"], code: "unavailable", says: "Redis is busy with another script" },
    { codes: ["TRYAGAIN"], code: "unavailable", says: "the cluster is moving this slot" },
    { codes: ["CLUSTERDOWN"], code: "unavailable", says: "the cluster has no master for this slot" },
    { codes: ["MASTERDOWN"], code: "unavailable", says: "this replica has lost its master" },
    { codes: ["UNBLOCKED"], code: "unavailable", says: "Redis stopped waiting for its replicas" },
    {
      codes: ["NOREPLICAS"],
      code: "unavailable",
      says: "Redis has fewer replicas than its min-replicas-to-write, so it refuses writes",
    },
  ],
  codesOf: (error) => [firstWord(error)],
  otherwise(error) {
    if (!(error instanceof Error)) return undefined;
    const { code } = error as { readonly code?: unknown };
    const text = describeError(error);
    if ((typeof code === "string" && SYSTEM.test(code)) || LOST.some((pattern) => pattern.test(text)))
      return UNREACHABLE;
    return firstWord(error) === undefined && !REPLIED.test(text) ? undefined : UNEXPECTED;
  },
  messageOf(says, error) {
    const { message } = error as Error;
    return `${says} (${says === UNREACHABLE.says ? describeError(error as Error) : message}).`;
  },
};

export function toStoreError(error: unknown): unknown {
  return translateDriverError(error, TABLE);
}

/** Rejects with our error instead of the client's. */
export async function translateErrors<T>(reply: Promise<T>): Promise<T> {
  try {
    return await reply;
  } catch (error) {
    throw toStoreError(error);
  }
}

function firstWord(error: unknown): string | undefined {
  return error instanceof Error ? REPLY.exec(error.message)?.[1] : undefined;
}

function describeError(error: Error): string {
  return `${error.constructor.name}: ${error.message}`;
}

const WRITE_REFUSALS: readonly (string | undefined)[] = ["OOM", "MISCONF", "NOREPLICAS"];

/** The server refuses writes and still answers reads. Takes a client's error or its translation. */
export function isWriteRefused(error: unknown): boolean {
  return WRITE_REFUSALS.includes(firstWord(isNevertwiceError(error) ? error.cause : error));
}

/** Not the server's: it cannot be reached, or its answer was lost. */
export function isNoAnswer(error: unknown): boolean {
  return firstWord(error) === undefined;
}

/** The server does not have the slot of the key, and has run nothing. */
export function redirection(
  error: unknown,
): { readonly isAsk: boolean; readonly address: string } | undefined {
  const found = error instanceof Error ? /^(MOVED|ASK) \d+ (\S+)/.exec(error.message) : null;
  return found === null ? undefined : { isAsk: found[1] === "ASK", address: found[2] ?? "" };
}

/** The server has become a replica since the step, and waits for none. */
export function isDemoted(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("ERR WAIT cannot be used with replica");
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** The server does not allow this command: managed services hide some, and a user may lack the permission. */
export function isForbidden(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(?:NOPERM|ERR unknown command|ERR .*not (?:allowed|available))/i.test(error.message)
  );
}

/** The error of a server that never worked: if it is a replica, the client has the wrong address, and no failover is going on. */
export function wrongServer(error: unknown): unknown {
  if (!isNevertwiceError(error) || firstWord(error.cause) !== "READONLY") return error;
  return new NevertwiceError("store-unsafe", error.message.replace(/^unavailable: /, ""), {
    cause: error.cause,
  });
}
