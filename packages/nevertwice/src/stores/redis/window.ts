/**
 * A window that processes share: a sorted set for each parameter, its changes by their time. A script judges and records
 * in one round trip, by the server's clock; it is `core/window.ts` in Lua. Redis removes a window that is empty by itself.
 */
import { checkOptions, isText } from "../../core/policy.ts";
import { MOST_CHANGES, type Window, type WindowAnswer, windowFull } from "../../core/window.ts";
import { type Script, script } from "../redis-lua.ts";
import { evaluated, settled } from "./evaluation.ts";
import { linkTo, type RedisClient, type RedisNode } from "./link.ts";

export interface RedisWindowOptions {
  /** `Redis` or `Cluster` of ioredis, or what `createClient` or `createCluster` of node-redis makes, connected. */
  readonly client: RedisClient;
  /** What every key begins with, before `flapping:`; default `nevertwice:`. */
  readonly prefix?: string | undefined;
}

const PREFIX = "nevertwice:";
/** Keeps windows and records apart under one prefix. */
const OURS = "flapping:";

/** How long past its time Redis itself removes a window. Its changes are judged by their own; this only collects it. */
const COLLECT_AFTER_MS = 1_000;
const SCAN_COUNT = "1000";
const CLEARS_AT_ONCE = 100;

/**
 * KEYS: the window. ARGV: token, value, windowMs, similarity, maxChanges. A member is `token value`, the value being the
 * caller's own text, which reads back as the same number; the token makes equal changes of one millisecond two members.
 * Removes what is out, and writes the change unless it answers {'flapping', similar, leftMs} or {'full'}; else {'recorded',
 * similar}. A token that is there already, from a request whose reply was lost, is answered as it was and not counted. The
 * removal asks to write even if nothing is out, so no replica answers, whose changes may be of yesterday.
 */
const RECORD: Script = script(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, token, text = KEYS[1], ARGV[1], ARGV[2]
local value, windowMs, similarity, maxChanges = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - windowMs)
local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
local times, isOurs = {}, false
for i = 1, #found, 2 do
  local theirToken, theirText = string.match(found[i], '^(%S+) (%S+)$')
  local at, theirs = found[i + 1] + 0, theirText + 0
  if at > now then
    -- The clock went back: a change of a time to come would count for longer than its window.
    at = now
    redis.call('ZADD', key, now, found[i])
  end
  if theirToken == token then
    isOurs = true
  elseif theirs == value or
    math.abs(theirs - value) / math.max(math.abs(theirs), math.abs(value)) <= similarity then
    times[#times + 1] = at
  end
end
if isOurs then return {'recorded', #times} end
local lastToLeave = times[#times - maxChanges + 1]
if lastToLeave then return {'flapping', #times, lastToLeave + windowMs - now} end
if #found / 2 >= ${MOST_CHANGES} then return {'full'} end
redis.call('ZADD', key, now, token .. ' ' .. text)
redis.call('PEXPIRE', key, windowMs + ${COLLECT_AFTER_MS})
return {'recorded', #times}`);

/** KEYS: the window, which is removed. */
const CLEAR: Script = script("return redis.call('DEL', KEYS[1])");

/** For `createFlapping({ window })`. Fails with `options-invalid` on a bad option. */
export function redisWindow(options: RedisWindowOptions): Window {
  checkOptions(options, { client: linkTo, prefix: isText });
  const { client, prefix = PREFIX } = options;
  const link = linkTo("client", client);
  const { sent, kept } = link.prefixes(`${prefix}${OURS}`);

  const run = (step: Script, parameter: string, ...args: string[]): Promise<unknown> =>
    evaluated(link.evaluate, step, [step.sha, "1", `${sent}{${parameter}}`, ...args]);

  async function clearAll(node: RedisNode): Promise<void> {
    const pattern = `${kept.replace(/[\\*?[\]]/g, "\\$&")}{*}`;
    let cursor = "0";
    do {
      const reply = await node.send("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT);
      const [next, keys] = reply as [unknown, readonly unknown[]];
      const parameters = keys.map((key) => String(key).slice(kept.length + 1, -1));
      for (let at = 0; at < parameters.length; at += CLEARS_AT_ONCE)
        await Promise.all(
          parameters.slice(at, at + CLEARS_AT_ONCE).map((parameter) => run(CLEAR, parameter)),
        );
      cursor = String(next);
    } while (cursor !== "0");
  }

  return {
    async record({ parameter, value, token, windowMs, similarity, maxChanges }) {
      const rule = [windowMs, similarity, maxChanges].map(String);
      const reply = await run(RECORD, parameter, token, String(value), ...rule);
      return answerFrom(reply) ?? Promise.reject(windowFull(parameter, windowMs));
    },
    async clear(parameter) {
      if (parameter !== undefined) await run(CLEAR, parameter);
      else await settled(link.masters().then((masters) => Promise.all(masters.map(clearAll))));
    },
  };
}

/** Undefined if the window is full. */
function answerFrom(reply: unknown): WindowAnswer | undefined {
  const [status, similar, leftMs] = reply as [string, unknown, unknown];
  if (status === "full") return undefined;
  if (status === "recorded") return { flapping: false, similar: Number(similar) };
  return { flapping: true, similar: Number(similar), leftMs: Number(leftMs) };
}
