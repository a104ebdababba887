/** Asks Redis servers for their settings. A server that hides some is asked for the rest. */
import { isForbidden } from "./failures.ts";
import type { RedisNode } from "./link.ts";
import type { ServerFacts } from "./settings.ts";

const CONFIGURED = [
  "maxmemory",
  "maxmemory-policy",
  "appendfsync",
  "no-appendfsync-on-rewrite",
  "save",
] as const;

export function readFacts(nodes: readonly RedisNode[]): Promise<readonly ServerFacts[]> {
  return Promise.all(nodes.map(factsOf));
}

async function factsOf(node: RedisNode): Promise<ServerFacts> {
  const [info, ...configured] = await Promise.all([
    unlessForbidden(node.send("INFO")).then(infoFrom),
    ...CONFIGURED.map((name) =>
      unlessForbidden(node.send("CONFIG", "GET", name)).then((reply) => configuredAs(reply, name)),
    ),
  ]);
  const [maxMemory, policy, fsync, pausesFsync, save] = configured;
  const memory = info.get("maxmemory") ?? maxMemory;
  const aof = info.get("aof_enabled");
  return {
    name: node.name,
    version: info.get("redis_version"),
    role: info.get("role"),
    maxMemory: memory === undefined ? undefined : Number(memory),
    policy: info.get("maxmemory_policy") ?? policy,
    hasAof: aof === undefined ? undefined : aof === "1",
    fsync,
    pausesFsync: pausesFsync === undefined ? undefined : pausesFsync === "yes",
    hasSnapshots: save === undefined ? undefined : save !== "",
  };
}

async function unlessForbidden(reply: Promise<unknown>): Promise<unknown> {
  try {
    return await reply;
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}

function infoFrom(reply: unknown): ReadonlyMap<string, string> {
  const lines = String(reply ?? "").split(/\r?\n/);
  return new Map(
    lines.flatMap((line): [string, string][] => {
      const at = line.indexOf(":");
      return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)]];
    }),
  );
}

/** One protocol answers CONFIG GET with a list, the other with a map, and clients make several things of that. */
function configuredAs(reply: unknown, name: string): string | undefined {
  if (Array.isArray(reply)) return reply[1] === undefined ? undefined : String(reply[1]);
  const found =
    reply instanceof Map ? reply.get(name) : (reply as Record<string, unknown> | undefined)?.[name];
  return found === undefined ? undefined : String(found);
}
