/** What a Redis client throws, in the words of our errors. What is none of these passes through as it is. */
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../../core/errors.ts";

interface Row {
  readonly code: ErrorCode;
  readonly says: string;
}

const AUTHENTICATE: Row = {
  code: "store-unsafe",
  says: "Redis refuses this user or password: hand in a client with credentials that it accepts",
};

/** By the first word of the server's error. */
const REPLIES: Readonly<Record<string, Row>> = {
  OOM: {
    code: "store-full",
    says: "Redis is at its maxmemory and takes no more: raise maxmemory, or keep outcomes for less long",
  },
  MISCONF: { code: "store-full", says: "Redis cannot write to its disk, so it takes no writes" },
  READONLY: {
    code: "store-unsafe",
    says: "this Redis is a read-only replica: hand in a client of its master",
  },
  MOVED: {
    code: "store-unsafe",
    says: "this Redis is a node of a cluster: hand in a cluster client (ioredis Cluster, or createCluster of node-redis)",
  },
  NOAUTH: AUTHENTICATE,
  WRONGPASS: AUTHENTICATE,
  NOPERM: {
    code: "store-unsafe",
    says: "this Redis user may not do what is needed (a store: EVALSHA, EVAL, TIME, HMGET, HGET, HSET, HDEL, DEL, PEXPIREAT, PERSIST, PUBLISH; a window: EVALSHA, EVAL, TIME, ZADD, ZRANGE, ZREMRANGEBYSCORE, PEXPIRE, DEL)",
  },
  LOADING: { code: "unavailable", says: "Redis is loading its data" },
  BUSY: { code: "unavailable", says: "Redis is busy with somebody's script" },
  TRYAGAIN: { code: "unavailable", says: "the cluster is moving this slot" },
  CLUSTERDOWN: { code: "unavailable", says: "the cluster has no master for this slot" },
  MASTERDOWN: { code: "unavailable", says: "this replica has lost its master" },
  NOREPLICAS: {
    code: "unavailable",
    says: "Redis has fewer replicas than its min-replicas-to-write, so it takes no writes",
  },
};

/** `OOM command …`, and the same within a script's error as servers before Redis 7 put it. */
const REPLY = /^(?:ERR .*?user_script.*? -)?([A-Z]{3,})\b/;

/** What ioredis and node-redis call and say of a connection that is not there, is lost, or keeps silent. */
const LOST = [
  /^(?:TimeoutError|AbortError):/,
  /connection is (?:already )?closed|connection.{0,20}(?:lost|reset|timeout|timed out)|connect ETIMEDOUT/i,
  /max retries per request|command (?:timed out|aborted)|stream isn't writeable|too many cluster redirections/i,
  /cluster isn't ready|none of startup nodes|failed to refresh slots|subscriber for the cluster/i,
  /client is (?:closed|offline)|socket (?:closed|timeout)|disconnects client|root nodes are unavailable|reconnect/i,
];

const SYSTEM = /^(?:E(?!RR_)[A-Z_]{3,}|NR_CLOSED|UNCERTAIN_STATE|CONNECTION_BROKEN)$/;

export function failureOf(error: unknown): unknown {
  if (isNevertwiceError(error) || !(error instanceof Error)) return error;
  const { message } = error;
  const word = REPLY.exec(message)?.[1] ?? "";
  const row = Object.hasOwn(REPLIES, word) ? REPLIES[word] : undefined;
  if (row !== undefined) return new NevertwiceError(row.code, `${row.says} (${message}).`, { cause: error });
  const system = (error as { readonly code?: unknown }).code;
  const said = `${error.constructor.name}: ${message}`;
  if ((typeof system === "string" && SYSTEM.test(system)) || LOST.some((each) => each.test(said)))
    return new NevertwiceError("unavailable", `Redis cannot be reached (${said}).`, { cause: error });
  return error;
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** The server hides this command: managed services do, and users with few rights. */
export function isForbidden(error: unknown): boolean {
  return error instanceof Error && /^(?:NOPERM|ERR unknown command|ERR .*not allowed)/i.test(error.message);
}
