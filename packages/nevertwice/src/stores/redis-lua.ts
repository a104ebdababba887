/**
 * The Redis store's scripts: `core/record.ts` in Lua, judged by the server's own clock. Each takes one step on any number
 * of records, for calls that came together; a step is atomic, and so is a script. A record
 * is a hash: `record` (twelve words, below), `parts` (a JSON array), `fingerprint` and `outcome`, the last two only if
 * there are any. Whatever is put together here is ours; what comes from outside arrives as KEYS and ARGV.
 *
 * The words of `record`, in order: version, state, fence, number, hold, tookOver, claimedAt, leaseMs, leaseEndsAt,
 * retentionMs, completedAt, token. The state `lapsed` is written by a token that gave up without releasing; a pending
 * record whose lease ran out still says `pending`. The token is last since it may hold any character.
 *
 * Numbers get into that text by `%.0f` alone: `tostring`, `..` and cjson round a fence. Numbers that stay as they are
 * stay the text that they were.
 */
import { hash } from "node:crypto";
import { FORGOTTEN } from "../core/outcome.ts";
import { CLOCK_BACK_MARGIN_MS } from "../core/record.ts";

export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** The version of the record's words. Another one is not guessed at. */
export const RECORD_VERSION = "1";
/** What a script answers, with the version, when it meets a record that it cannot read. */
export const UNREADABLE = "unreadable";

/** How long past its time Redis itself removes a record. Its time is judged by its own words; this only collects it. */
const COLLECT_AFTER_MS = 60_000;

const START = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

const WORDS =
  "version, state, fence, number, hold, tookOver, claimedAt, leaseMs, leaseEndsAt, retentionMs, completedAt, token";

/** Takes `text` apart. */
const PARSE = `
local ${WORDS} = string.match(text,
  '^(%d+) (%a+) (%d+) (%d+) (%d) (%d) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
`;

const REFUSE_UNREADABLE = `
if version ~= '${RECORD_VERSION}' then
  return {'${UNREADABLE}', string.sub(string.match(text, '^%S*'), 1, 20)}
end
`;

const JUDGE = `
local isOpen = state == 'pending' or state == 'lapsed'
local keptFrom = state == 'completed' and completedAt or leaseEndsAt
local isExpired = not (isOpen and hold == '1') and now >= keptFrom + retentionMs
`;

/** Has Redis remove the record some time after its own. Redis writes a number that it is handed to the last digit. */
function collectAfter(keptUntil: string): string {
  return `redis.call('PEXPIREAT', key, ${keptUntil} + ${COLLECT_AFTER_MS})`;
}

function whole(number: string): string {
  return `string.format('%.0f', ${number})`;
}

/** The words as they are now, as one text. */
const JOINED = `'${RECORD_VERSION} ' .. ${WORDS.split(", ").slice(1).join(" .. ' ' .. ")}`;

/** Writes the lease anew, with whatever else changed. */
const WRITE_LEASE = `
leaseEndsAt = ${whole("now + leaseMs")}
redis.call('HSET', key, 'record', ${JOINED})
if hold == '1' then redis.call('PERSIST', key) else ${collectAfter("leaseEndsAt + retentionMs")} end
`;

/** Waking is a courtesy: a user who may not publish must not lose the step that was just written. */
const WAKE = "redis.pcall('PUBLISH', key, '')";

/**
 * `hold` is 0 or 1; takeover and fingerprint may be nothing. Writes on `new`, and when a pending deadline shows that the
 * clock went back. Answers {'new', fence, number, tookOver}, {'pending', leaseLeftMs}, {'completed', outcome},
 * {'conflict', state} or {'unknown', fence}.
 */
export const CLAIM: Script = steps(
  ["ourToken", "ourLeaseMs", "ourRetentionMs", "ourHold", "takeover", "parts", "ours"],
  `
local found = redis.call('HMGET', key, 'record', 'fingerprint', 'outcome')
local text = found[1]
local lastFence, lastNumber, isTakeover, isHeld = 0, 0, false, ourHold
if text then
  ${PARSE}${REFUSE_UNREADABLE}${JUDGE}
  lastFence = fence
  if isExpired then
    if takeover ~= '' then return {'pending', 0} end
  else
    local seen = state
    if state == 'pending' and now >= leaseEndsAt + 0 then seen = 'lapsed' end
    local theirs = found[2]
    if seen ~= 'released' and theirs and ours ~= '' and theirs ~= ours and
      (string.match(theirs, '^[^:]*:') or '') == (string.match(ours, '^[^:]*:') or '') then
      return {'conflict', seen}
    end
    if seen == 'completed' then return {'completed', found[3]} end
    if token == ourToken then
      -- own-claim-recognised: a repeat after a lost reply owns what it owned; after it gave up, it owns nothing.
      if state ~= 'pending' then return {'pending', 0} end
      leaseMs = ourLeaseMs
      if ourHold == '1' then hold = '1' end
      ${WRITE_LEASE}
      return {'new', fence + 0, number + 0, tookOver + 0}
    end
    if seen == 'pending' then
      local left = leaseEndsAt - now
      if left > leaseMs + ${CLOCK_BACK_MARGIN_MS} then
        ${WRITE_LEASE}
        left = leaseMs + 0
      end
      return {'pending', left}
    end
    if seen == 'released' then
      if takeover ~= '' then return {'pending', 0} end
    else
      local mayTakeOver = takeover == fence
      if takeover == '' then mayTakeOver = hold == '0' and ourHold == '0' end
      if not mayTakeOver then return {'unknown', fence + 0} end
      isTakeover = true
      if hold == '1' then isHeld = '1' end
    end
    lastNumber = number
  end
  -- A lapsed attempt's fingerprint stays; of any other former life nothing does.
  if not isTakeover then redis.call('DEL', key) end
elseif takeover ~= '' then
  return {'pending', 0}
end
local fence = math.max(lastFence + 1, time[1] * 1000000 + time[2])
local number = lastNumber + 1
local leaseEndsAt = now + ourLeaseMs
-- The token is not formatted: '%s' ends at a zero byte.
local record = string.format('${RECORD_VERSION} pending %.0f %.0f %s %s %.0f %s %.0f %s 0 ',
  fence, number, isHeld, isTakeover and '1' or '0', now, ourLeaseMs, leaseEndsAt, ourRetentionMs) .. ourToken
if ours ~= '' then
  redis.call('HSET', key, 'record', record, 'parts', parts, 'fingerprint', ours)
else
  redis.call('HSET', key, 'record', record, 'parts', parts)
end
if isHeld == '0' then
  ${collectAfter("leaseEndsAt + ourRetentionMs")}
elseif text then
  redis.call('PERSIST', key)
end
return {'new', fence, number, isTakeover and 1 or 0}`,
);

/** Writes nothing, but asks to: a replica refuses that, and what it has may be of yesterday. */
const ASK_TO_WRITE = "('HDEL', KEYS[1], '')";

const REFUSED = `do redis.call${ASK_TO_WRITE} return 0 end`;

/** stale-token-refused: every step after the claim passes through here. */
const OWNED = `
local text = redis.call('HGET', key, 'record')
if not text then ${REFUSED} end
${PARSE}${REFUSE_UNREADABLE}
if token ~= ourToken then ${REFUSED} end
${JUDGE}
if isExpired then ${REFUSED} end
`;

/**
 * A repeated step changes nothing. It is written all the same, so that a WAIT behind it waits for the first one too,
 * whose own WAIT may have failed.
 */
const REPEATED = `
redis.call('HSET', key, 'record', text)
return 1
`;

/** Answers 1, or 0 and writes nothing. */
export const COMPLETE: Script = steps(
  ["ourToken", "ourRetentionMs", "outcome"],
  `${OWNED}
if state == 'released' then ${REFUSED} end
if state == 'completed' then ${REPEATED} end
state, completedAt, retentionMs = 'completed', ${whole("now")}, ourRetentionMs
redis.call('HSET', key, 'record', ${JOINED}, 'outcome', outcome)
${collectAfter("now + retentionMs")}
${WAKE}
return 1`,
);

/** Answers 1, or 0 and writes nothing. */
export const ABANDON: Script = steps(
  ["ourToken", "as"],
  `${OWNED}
if state == 'completed' then ${REFUSED} end
if state ~= 'pending' then ${REPEATED} end
local isReleased = as == 'released' or (as == 'unrun' and tookOver == '0')
state = isReleased and 'released' or 'lapsed'
redis.call('HSET', key, 'record', ${JOINED})
if isReleased and hold == '1' then ${collectAfter("leaseEndsAt + retentionMs")} end
${WAKE}
return 1`,
);

/** Answers 1, or 0 and writes nothing. */
export const RENEW: Script = steps(
  ["ourToken", "ourLeaseMs"],
  `${OWNED}
if state ~= 'pending' then ${REFUSED} end
leaseMs = ourLeaseMs
${WRITE_LEASE}
return 1`,
);

/** Removes the record; over an outcome leaves a marker, or with `reopen` 1 the key released. Answers 1, or 0 and writes nothing. */
export const FORGET: Script = steps(
  ["ourFence", "reopen"],
  `
local text = redis.call('HGET', key, 'record')
if not text then ${REFUSED} end
${PARSE}${REFUSE_UNREADABLE}${JUDGE}
if isExpired or fence ~= ourFence then ${REFUSED} end
if state == 'pending' and now < leaseEndsAt + 0 then ${REFUSED} end
if state ~= 'completed' then
  redis.call('DEL', key)
elseif reopen == '1' then
  -- Kept for as long as it was: what is released counts from the end of its lease.
  state, leaseEndsAt, completedAt = 'released', completedAt, '0'
  redis.call('HSET', key, 'record', ${JOINED})
  redis.call('HDEL', key, 'outcome')
else
  redis.call('HSET', key, 'outcome', '${FORGOTTEN}')
  redis.call('HDEL', key, 'parts', 'fingerprint')
end
${WAKE}
return 1`,
);

/**
 * KEYS: any number of records. ARGV: how the parts must begin; nothing for any. Writes nothing, and is never
 * answered by a replica. Returns the time in milliseconds, then for each key its record, parts, fingerprint and outcome
 * as they are, or nil.
 */
export const READ: Script = script(`${START}
local asked = redis.pcall${ASK_TO_WRITE}
if type(asked) == 'table' and asked.err and not string.find(asked.err, 'WRONGTYPE') then return asked end
local answer = {now}
local start = ARGV[1]
for i = 1, #KEYS do
  local fields = redis.pcall('HMGET', KEYS[i], 'record', 'parts', 'fingerprint')
  -- Something else under our prefix: whoever asks for this very key is told, and a list goes on without it.
  if fields.err and start == '' then return fields end
  if fields[1] and (start == '' or (fields[2] and string.sub(fields[2], 1, #start) == start)) then
    fields[4] = redis.call('HGET', KEYS[i], 'outcome')
    answer[i + 1] = fields
  else
    answer[i + 1] = false
  end
end
return answer`);

/** Takes the step on each of KEYS. What it asks for each follows in ARGV, in this order. Answers in the order of KEYS. */
function steps(asked: readonly string[], step: string): Script {
  const values = asked.map((_, index) => `ARGV[at + ${index + 1}]`);
  return script(`${START}
local function step(key, ${asked.join(", ")})
${step}
end
local answers = {}
for i = 1, #KEYS do
  local at = (i - 1) * ${asked.length}
  answers[i] = step(KEYS[i], ${values.join(", ")})
end
return answers`);
}

export function script(text: string): Script {
  return { text, sha: hash("sha1", text, "hex") };
}
