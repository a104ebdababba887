/**
 * The scripts of the Redis store: core/record.ts in Lua, with the server's clock. Each script takes one step on any number of
 * records, for calls that arrived together, and is atomic. All script text is written here; values from outside arrive as
 * KEYS and ARGV.
 *
 * A record is a hash: `record` (twelve fields in one string), `parts` (a JSON array), `fingerprint`, `outcome` and `steps`
 * (core/kept-steps.ts), the last three only if they exist. A release without steps ignores the last one, so `record` keeps its
 * version.
 *
 * The fields of `record`, in order: version, state, fence, number, hold, tookOver, claimedAt, leaseMs, leaseEndsAt,
 * retentionMs, completedAt, token. A token that abandons without releasing writes the state `lapsed`; a pending record whose
 * lease ran out still has `pending`. The token is last since it may contain any character.
 *
 * Numbers are formatted with `%.0f` only: `tostring`, `..` and cjson would round a fence. A number that does not change keeps
 * its text.
 */
import { hash } from "node:crypto";
import { FORGOTTEN } from "../core/outcome.ts";
import { CLOCK_BACK_MARGIN_MS } from "../core/record.ts";

export interface LuaScript {
  readonly text: string;
  readonly sha: string;
}

/** The version of the record's format. A record with another version is unreadable. */
export const RECORD_VERSION = "1";
/** A script's answer, with the reason, for a record that it cannot read. */
export const UNREADABLE = "unreadable";

/** How long after its deadline Redis removes a record. The record's own fields decide when it expires; this frees memory. */
const COLLECT_AFTER_MS = 60_000;

const FIELDS =
  "version, state, fence, number, hold, tookOver, claimedAt, leaseMs, leaseEndsAt, retentionMs, completedAt, token";

/** The current fields as one string. */
const JOINED = `'${RECORD_VERSION} ' .. ${FIELDS.split(", ").slice(1).join(" .. ' ' .. ")}`;

/** Reads the fields. A key that is not a hash is unreadable; any other error is raised unchanged. */
function readFields(fields: string): string {
  return `
local found = redis.pcall('HMGET', key, ${fields})
if found.err then
  if string.find(found.err, 'WRONGTYPE', 1, true) then return {'${UNREADABLE}', found.err} end
  redis.call('HMGET', key, ${fields})
end
local text = found[1]
`;
}

const HEADLESS = "it has no field called record";

/** A hash without its field `record` is not a free key: it may have been completed. */
const REFUSE_HEADLESS = `
local rest = redis.call('HMGET', key, 'parts', 'fingerprint', 'outcome')
if rest[1] or rest[2] or rest[3] then return {'${UNREADABLE}', '${HEADLESS}'} end
`;

/**
 * Parses `text`, and refuses what no script wrote. Since no number is negative, their sum is enough to find one that is too
 * large: a script that computed with it would write `inf` into the record.
 */
const PARSE = `
local ${FIELDS} = string.match(text,
  '^(%d+) (%a+) (%d+) (%d+) ([01]) ([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
if version ~= '${RECORD_VERSION}' or
  not (state == 'pending' or state == 'completed' or state == 'released' or state == 'lapsed') or
  (state == 'completed') ~= (completedAt + 0 > 0) or
  fence + number + claimedAt + leaseMs + leaseEndsAt + retentionMs + completedAt >= 1e17 then
  return {'${UNREADABLE}', '', string.sub(text, 1, 40)}
end
`;

const WITHOUT_OUTCOME = `{'${UNREADABLE}', 'it is completed and has no outcome'}`;

const JUDGE = `
local isOpen = state == 'pending' or state == 'lapsed'
local keptFrom = state == 'completed' and completedAt or leaseEndsAt
local isExpired = not (isOpen and hold == '1') and now >= keptFrom + retentionMs
`;

/** Makes Redis remove the record some time after its deadline. Redis formats a number argument without rounding. */
function collectAfter(keptUntil: string): string {
  return `redis.call('PEXPIREAT', key, ${keptUntil} + ${COLLECT_AFTER_MS})`;
}

/**
 * Sets the time of removal that the record already has, so that a following WAIT has a write to wait for: WAIT waits for the
 * last write of its connection and for all earlier ones, including the completion. Redis accepts this write even at its
 * maxmemory.
 */
const WRITE_SETTLED = collectAfter("completedAt + retentionMs");

function formatWhole(number: string): string {
  return `string.format('%.0f', ${number})`;
}

/** Writes a new lease, together with other fields that changed. */
const WRITE_LEASE = `
leaseEndsAt = ${formatWhole("now + leaseMs")}
redis.call('HSET', key, 'record', ${JOINED})
if hold == '1' then redis.call('PERSIST', key) else ${collectAfter("leaseEndsAt + retentionMs")} end
`;

const START = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** `pcall`, since a user without the permission to publish must not lose the step that was just written. */
const WAKE = "redis.pcall('PUBLISH', key, '')";

/** Whether the text of steps in `steps` belongs to the claim of `token`. */
const ARE_OWN_STEPS = "steps and string.sub(steps, 1, #token + 1) == token .. '\\n'";

/** Writes the claim, as a new record or over the one that it takes over. */
const GRANT = `
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
if carried then redis.call('HSET', key, 'steps', carried) end
if isHeld == '0' then
  ${collectAfter("leaseEndsAt + ourRetentionMs")}
elseif text then
  redis.call('PERSIST', key)
end
return {'new', fence, number, isTakeover and 1 or 0, carried}`;

/**
 * `hold` is 0 or 1; takeover and fingerprint may be empty. Writes on `new`, and when a pending deadline shows that the clock
 * went back. Answers {'new', fence, number, tookOver, steps if there are any}, {'pending', leaseLeftMs},
 * {'completed', outcome}, {'conflict', state} or {'unknown', fence}. `onSettled` runs before the script answers with a completed record.
 */
function claimScript(onSettled: string): LuaScript {
  return steps(
    ["ourToken", "ourLeaseMs", "ourRetentionMs", "ourHold", "takeover", "parts", "ours"],
    `${readFields("'record', 'fingerprint', 'outcome', 'parts', 'steps'")}
local lastFence, lastNumber, isTakeover, isHeld, carried = 0, 0, false, ourHold, nil
local steps = found[5]
if text then
  ${PARSE}${JUDGE}
  lastFence = fence
  if isExpired then
    if takeover ~= '' then return {'pending', 0} end
  else
    local seen = state
    if state == 'pending' and now >= leaseEndsAt + 0 then seen = 'lapsed' end
    if seen == 'completed' then
      if not found[3] then return ${WITHOUT_OUTCOME} end
      ${onSettled}
    end
    local theirs = found[2]
    local isContinued = ${ARE_OWN_STEPS}
    if (seen ~= 'released' or isContinued) and theirs and ours ~= '' and theirs ~= ours and
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
      return {'new', fence + 0, number + 0, tookOver + 0, isContinued and steps or nil}
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
    if isContinued then carried = ourToken .. string.sub(steps, #token + 1) end
  end
  -- The fingerprint of a lapsed attempt, or of one with steps, stays; of any other former life nothing does.
  if not isTakeover and not carried then redis.call('DEL', key)
  elseif steps and not carried then redis.call('HDEL', key, 'steps') end
elseif found[2] or found[3] or found[4] then
  return {'${UNREADABLE}', '${HEADLESS}'}
elseif takeover ~= '' then
  return {'pending', 0}
end
${GRANT}`,
  );
}

export const CLAIM = claimScript("");
/** Writes even if the record is already completed, so that a following WAIT has a write to wait for. */
export const CLAIM_REPLICATED = claimScript(WRITE_SETTLED);

/** A write command that changes nothing. A replica refuses it, and so never answers with old data. */
const EMPTY_WRITE = "('HDEL', KEYS[1], '')";

const REFUSED = `do redis.call${EMPTY_WRITE} return 0 end`;

/** stale-token-refused: every step after the claim starts with this. */
const owned = (fields: string) => `${readFields(fields)}
if not text then
  ${REFUSE_HEADLESS}
  ${REFUSED}
end
${PARSE}
if token ~= ourToken then ${REFUSED} end
${JUDGE}
if isExpired then ${REFUSED} end
`;

/**
 * A repeated step changes nothing. It still writes, so that a following WAIT also waits for the first one, whose own WAIT
 * may have failed.
 */
const REPEATED = `
redis.call('HSET', key, 'record', text)
return 1
`;

/** Answers 1, or 0 and writes nothing. */
export const COMPLETE: LuaScript = steps(
  ["ourToken", "ourRetentionMs", "outcome"],
  `${owned("'record', 'steps'")}
if state == 'released' then ${REFUSED} end
if state == 'completed' then
  if not redis.call('HGET', key, 'outcome') then return ${WITHOUT_OUTCOME} end
  ${REPEATED}
end
state, completedAt, retentionMs = 'completed', ${formatWhole("now")}, ourRetentionMs
redis.call('HSET', key, 'record', ${JOINED}, 'outcome', outcome)
if found[2] then redis.call('HDEL', key, 'steps') end
${collectAfter("now + retentionMs")}
${WAKE}
return 1`,
);

/** Answers 1, or 0 and writes nothing. */
export const ABANDON: LuaScript = steps(
  ["ourToken", "as"],
  `${owned("'record'")}
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
export const RENEW: LuaScript = steps(
  ["ourToken", "ourLeaseMs"],
  `${owned("'record'")}
if state ~= 'pending' then ${REFUSED} end
leaseMs = ourLeaseMs
${WRITE_LEASE}
return 1`,
);

/** `lineStart` and `lineEnd` are the line of the step, without the time in the middle. Answers 1, or 0 and writes nothing. */
export const KEEP_STEP: LuaScript = steps(
  ["ourToken", "lineStart", "lineEnd"],
  `${owned("'record', 'steps'")}
if state ~= 'pending' then ${REFUSED} end
local steps = found[2]
if not (${ARE_OWN_STEPS}) then steps = token .. '\\n' end
if string.find(steps, '\\n' .. lineStart, 1, true) then ${REPEATED} end
redis.call('HSET', key, 'steps', steps .. lineStart .. ${formatWhole("now")} .. lineEnd)
return 1`,
);

/** Removes the record. A completed one gets a marker as its outcome, or with `reopen` 1 is released. Answers 1, or 0 and writes nothing. */
export const FORGET: LuaScript = steps(
  ["ourFence", "reopen"],
  `${readFields("'record'")}
if not text then
  ${REFUSE_HEADLESS}
  ${REFUSED}
end
${PARSE}${JUDGE}
if isExpired or fence ~= ourFence then ${REFUSED} end
if state == 'pending' and now < leaseEndsAt + 0 then ${REFUSED} end
if state ~= 'completed' then
  redis.call('DEL', key)
elseif reopen == '1' then
  -- Kept for as long as it was: what is released counts from the end of its lease.
  state, leaseEndsAt, completedAt = 'released', completedAt, '0'
  redis.call('HSET', key, 'record', ${JOINED})
  redis.call('HDEL', key, 'outcome', 'steps')
else
  redis.call('HSET', key, 'outcome', '${FORGOTTEN}')
  redis.call('HDEL', key, 'parts', 'fingerprint', 'steps')
end
${WAKE}
return 1`,
);

/** WRITE_SETTLED for a record that is read and not parsed. One write is enough: WAIT waits for all earlier ones too. */
const WRITE_FIRST_SETTLED = `
local retentionMs, completedAt = string.match(found[1] or '',
  '^%d+ completed %d+ %d+ %d %d %d+ %d+ %d+ (%d+) (%d+) ')
if isAsked and not isWritten and completedAt and #retentionMs < 17 and #completedAt < 17 then
  isWritten = true
  ${WRITE_SETTLED}
end
`;

/**
 * KEYS: any number of records. ARGV: how the parts must begin; empty for any. A replica never answers it. Returns the time in
 * milliseconds, then for each key its record, parts, fingerprint, outcome and steps unchanged, or nil. A record that cannot be read
 * is reported to a caller that reads its key, and in the list that it is known to belong to.
 */
function readScript(onSettled: string): LuaScript {
  return script(`${START}
local asked = redis.pcall${EMPTY_WRITE}
if type(asked) == 'table' and asked.err and not string.find(asked.err, 'WRONGTYPE') then return asked end
local answer = {now}
local start = ARGV[1]
local isWritten = false
for i = 1, #KEYS do
  local key = KEYS[i]
  local found = redis.pcall('HMGET', key, 'record', 'parts', 'fingerprint')
  if found.err and not string.find(found.err, 'WRONGTYPE') then return found end
  local isAsked = start == '' or (found[2] and string.sub(found[2], 1, #start) == start)
  local rest = isAsked and not found.err and redis.call('HMGET', key, 'outcome', 'steps') or {}
  local outcome = rest[1] or false
  ${onSettled}
  if isAsked and found.err then
    answer[i + 1] = {'${UNREADABLE}', found.err}
  elseif isAsked and found[1] then
    found[4], found[5] = outcome, rest[2]
    answer[i + 1] = found
  elseif isAsked and (found[2] or found[3] or outcome) then
    answer[i + 1] = {'${UNREADABLE}', '${HEADLESS}'}
  else
    answer[i + 1] = false
  end
end
return answer`);
}

export const READ = readScript("");
/** Writes if a record is completed, so that a following WAIT has a write to wait for. */
export const READ_REPLICATED = readScript(WRITE_FIRST_SETTLED);

/** Takes the step on each of KEYS, and answers in their order. ARGV has the `names` of values for each key, in this order. */
function steps(names: readonly string[], step: string): LuaScript {
  const values = names.map((_, index) => `ARGV[at + ${index + 1}]`);
  return script(`${START}
local function step(key, ${names.join(", ")})
${step}
end
local answers = {}
for i = 1, #KEYS do
  local at = (i - 1) * ${names.length}
  answers[i] = step(KEYS[i], ${values.join(", ")})
end
return answers`);
}

export function script(text: string): LuaScript {
  return { text, sha: hash("sha1", text, "hex") };
}
