/**
 * A window that several processes share: a sorted set for each parameter, with its changes ordered by time. A script decides
 * and records in one round trip, by the server's clock; it is `core/window.ts` in Lua. Redis removes an empty window itself.
 */
import { checkOptions, isText } from "../../core/option-checks.ts";
import { MOST_CHANGES, type Window, type WindowAnswer, windowFull } from "../../core/window.ts";
import { type LuaScript, script } from "../redis-lua.ts";
import { adaptClient, type RedisClient, type RedisNode, runScript } from "./client.ts";
import { translateErrors, wrongServer } from "./errors.ts";
import { DEFAULT_PREFIX } from "./script-store.ts";

/** Options of `redisWindow`. */
export interface RedisWindowOptions {
  /** `Redis` or `Cluster` of ioredis, or a connected client from `createClient` or `createCluster` of node-redis. */
  readonly client: RedisClient;
  /**
   * The prefix of every key, in front of `flapping:`; default `nevertwice:`.
   * @default "nevertwice:"
   */
  readonly prefix?: string | undefined;
}

/** Separates windows from records with the same prefix. */
const WINDOWS = "flapping:";

/** How long after its last change expires Redis removes a window. Each change has its own time; this only frees memory. */
const COLLECT_AFTER_MS = 1_000;
const SCAN_COUNT = "1000";
const CLEARS_AT_ONCE = 100;

/**
 * KEYS: the window. ARGV: token, value, windowMs, similarity, maxChanges. A member is `token value`. The value is the
 * caller's text, which reads back as the same number; the token keeps equal changes of one millisecond apart. The script
 * removes changes that have left the window. It answers {'flapping', similar, leftMs} or {'full'} and writes nothing more, or
 * it writes the change and answers {'recorded', similar}. A token that exists already, from a request whose reply was lost,
 * gets the same answer and is not counted again. The removal is a write command even if nothing is removed, so no replica
 * answers with old changes.
 */
const RECORD: LuaScript = script(`
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
    -- The clock went back: a change with a time in the future would count for longer than its window.
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
const CLEAR: LuaScript = script("return redis.call('DEL', KEYS[1])");

/**
 * Keeps the window of `createFlapping({ window })` in Redis, for all processes. Throws `options-invalid` on a bad option.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Redis } from "ioredis";
 * import { createFlapping } from "nevertwice/flapping";
 * import { redisWindow } from "nevertwice/stores/redis";
 *
 * export const flapping = createFlapping({ window: redisWindow({ client: new Redis() }) });
 * ```
 */
export function redisWindow(options: RedisWindowOptions): Window {
  checkOptions(options, { client: adaptClient, prefix: isText });
  const { client, prefix = DEFAULT_PREFIX } = options;
  const adapter = adaptClient("client", client);
  const { sent, stored } = adapter.prefixes(`${prefix}${WINDOWS}`);
  // Never stopped: a window has no `close`.
  adapter.listen();
  let hasAnswered = false;

  const run = (step: LuaScript, parameter: string, ...args: string[]): Promise<unknown> =>
    runScript(adapter.evaluate, step, [step.sha, "1", `${sent}{${parameter}}`, ...args]).then(
      (reply) => {
        hasAnswered = true;
        return reply;
      },
      (error) => {
        throw hasAnswered ? error : wrongServer(error);
      },
    );

  async function clearAll(node: RedisNode): Promise<void> {
    const pattern = `${stored.replace(/[\\*?[\]]/g, "\\$&")}{*}`;
    let cursor = "0";
    do {
      const reply = await node.send("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT);
      const [next, keys] = reply as [unknown, readonly unknown[]];
      const parameters = keys.map((key) => String(key).slice(stored.length + 1, -1));
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
      return toWindowAnswer(reply) ?? Promise.reject(windowFull(parameter, windowMs));
    },
    async clear(parameter) {
      if (parameter !== undefined) await run(CLEAR, parameter);
      else await translateErrors(adapter.masters().then((masters) => Promise.all(masters.map(clearAll))));
    },
  };
}

/** Undefined if the window is full. */
function toWindowAnswer(reply: unknown): WindowAnswer | undefined {
  const [status, similar, leftMs] = reply as [string, unknown, unknown];
  if (status === "full") return undefined;
  if (status === "recorded") return { flapping: false, similar: Number(similar) };
  return { flapping: true, similar: Number(similar), leftMs: Number(leftMs) };
}
