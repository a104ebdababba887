/**
 * How the Upstash store calls `@upstash/redis`: every command with `exec`, which the client sends in a request of its own,
 * even with automatic pipelining. A pipeline would share a request between calls, which workerd forbids between the requests
 * that it serves. A client is recognised by its members, since the application may have another copy of the package.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { RedisAdapter } from "../redis/client.ts";
import { toReplyError } from "./errors.ts";

/** The part of `Redis` of `@upstash/redis`, `@upstash/redis/cloudflare` or `@upstash/redis/fastly` that is used here. */
export interface UpstashClient {
  exec<Reply>(command: [command: string, ...args: string[]]): Promise<Reply>;
}

export type UpstashAdapter = Pick<
  RedisAdapter,
  "isCluster" | "prefixes" | "evaluate" | "readTexts" | "masters"
>;

/** Settings of the client. Its declarations hide them. */
interface ClientSettings {
  readonly opts?: { readonly automaticDeserialization?: boolean } | undefined;
  readonly client?: { readonly options?: { readonly signal?: unknown } } | undefined;
}

/** Throws `options-invalid` unless it is a client whose settings leave replies as they are. */
export function adaptUpstash(name: string, client: unknown): UpstashAdapter {
  const { exec } = (client ?? {}) as Partial<UpstashClient>;
  if (typeof exec !== "function")
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be a Redis of @upstash/redis 1.35 or later; for a TCP client use redisStore of nevertwice/stores/redis.`,
    );
  checkSettings(name, client as ClientSettings);
  const send = (...command: [string, ...string[]]) => sendCommand(client as UpstashClient, command);
  return {
    isCluster: false,
    prefixes: (prefix) => ({ sent: prefix, stored: prefix }),
    evaluate: (command, args) => send(command, ...args).then(checkList),
    readTexts: (keys) => send("MGET", ...keys),
    masters: async () => [{ name: "", send }],
  };
}

function checkSettings(name: string, { opts, client }: ClientSettings): void {
  // By default the client parses every text that looks like JSON: outcomes would come back as other values.
  if (opts?.automaticDeserialization !== false)
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be created with automaticDeserialization: false, or it changes stored outcomes: new Redis({ url, token, automaticDeserialization: false }).`,
    );
  // With such a signal the client never asks the server again, and returns the reason of the signal as its reply.
  if (typeof client?.options?.signal === "object" && client.options.signal !== null)
    throw new NevertwiceError(
      "options-invalid",
      `the signal of ${name} must be a function, such as () => AbortSignal.timeout(5_000): after one signal for all requests has fired, the client makes up replies.`,
    );
}

async function sendCommand(client: UpstashClient, command: [string, ...string[]]): Promise<unknown> {
  try {
    return await client.exec(command);
  } catch (error) {
    throw toReplyError(error);
  }
}

/** Every script answers with a list. Nothing may be concluded from another reply: the step may have been taken. */
function checkList(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply;
  throw new NevertwiceError(
    "unavailable",
    "the reply of a script did not come from Redis, so whether its step was taken is unknown.",
  );
}
