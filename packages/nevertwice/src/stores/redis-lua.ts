/**
 * The scripts of the Redis store: core/record.ts in Lua, with the server's clock. Each script takes one step on any number of
 * records, for calls that arrived together, and is atomic. All script text is written here; values from outside arrive as
 * KEYS and ARGV.
 *
 * A record is one string of four lines and a rest:
 *
 *   3cFENCE NUMBER …  the version, the state, and the words: fence, number, hold with tookOver, claimedAt, leaseMs, endsAt,
 *                     retentionMs; then, if there is one, `|` and the line of its history (core/kept-history.ts)
 *   TOKEN
 *   FINGERPRINT       empty if there is none
 *   PARTS             a JSON array; empty once the record is forgotten
 *   OUTCOME           everything up to the end; of a record that is not completed, the lines of its steps (core/kept-steps.ts)
 *
 * The states are `p` (pending), `l` (lapsed: its token gave it up without releasing it), `r` (released), `c` (completed) and
 * `f`. Token and fingerprint are escaped, so that each is one line (redis/record-text.ts); scripts compare them as they are.
 * The rest is not escaped: nothing follows it, and only a record that is not completed has steps. They belong to the token of
 * the record, as its history does, which is why both are kept without one. The words come first, since they are the same for
 * all claims of a group.
 *
 * Redis keeps a record in memory of the next larger size, so the words are short. `endsAt` is when the lease ends, or when the
 * record was completed; a completed record has no lease, and its leaseMs is 0. `claimedAt` is 0 if it is the time in the fence,
 * as it nearly always is.
 *
 * `f` is what FORGET leaves of a record that was not completed: `3f` and the fence, for a minute. It counts as absent, but the
 * next fence is higher, although the clock may have gone back a little.
 *
 * A key outlives its record by at least COLLECT_AFTER_MS. The words decide when the record expires, never the presence of its
 * key: Redis still answers in the millisecond in which a key expires, and the last fence must be known for a while.
 *
 * Numbers are formatted with `%.0f` only: `tostring`, `..` and cjson would round a fence. A number that does not change keeps
 * its text. Formatting is slow, and so is a number as the argument of a command.
 */
import { sha1 } from "#platform";
import { MAX_ENTRIES } from "../core/kept-history.ts";
import { FORGOTTEN } from "../core/outcome.ts";
import { CLOCK_BACK_MARGIN_MS } from "../core/record.ts";

export interface LuaScript {
  readonly text: string;
  readonly sha: string;
  /** The same script for keys of several slots of a cluster; undefined if it is never run on those. */
  readonly apart?: LuaScript | undefined;
  /** The same script with sharded pub/sub, for a cluster; undefined if it wakes no waiters. */
  readonly sharded?: LuaScript | undefined;
}

/** The version of the record's format. A record with another version is unreadable. */
export const RECORD_VERSION = "3";
/** A script's answer, with the reason, for a record that it cannot read. */
export const UNREADABLE = "unreadable";
/** How long after its deadline Redis removes a record. */
const COLLECT_AFTER_MS = 60_000;

const WORDS = "fence, number, hold, tookOver, claimedAt, leaseMs, endsAt, retentionMs";

/** The whole text, from the present values and `rest`. */
function textWith(rest: string): string {
  const words = WORDS.split(", ").join(" .. ' ' .. ").replace("hold .. ' ' .. tookOver", "hold .. tookOver");
  return `'${RECORD_VERSION}' .. state .. ${words} .. history .. '\\n' .. token .. '\\n' .. theirs .. '\\n' .. parts .. '\\n' .. ${rest}`;
}

/** Checks the text that was read. A key with another type of value is unreadable; any other error is raised unchanged. */
const CHECK_TEXT = `
if type(text) == 'table' then
  if string.find(text.err, 'WRONGTYPE', 1, true) then return {'${UNREADABLE}', text.err} end
  redis.call('GET', key)
end
`;

const GET_TEXT = "local text = redis.pcall('GET', key)";
const READ_TEXT = `${GET_TEXT}${CHECK_TEXT}`;

function formatWhole(number: string): string {
  return `string.format('%.0f', ${number})`;
}

/**
 * Parses `text`, and refuses what no script wrote. Since no number is negative, their sum is enough to find one that is too
 * large: a script that computed with it would write `inf` into the record. The reason for a record that cannot be read never
 * quotes it, since its token must not come into a log.
 */
const PARSE = `
local state, ${WORDS}, history, token, theirs, parts, restAt = string.match(text,
  '^${RECORD_VERSION}([plrc])(%d+) (%d+) ([01])([01]) (%d+) (%d+) (%d+) (%d+)([|%w ;]*)\\n([^\\n]*)\\n([^\\n]*)\\n([^\\n]*)\\n()')
if not state or endsAt + 0 == 0 or (state == 'c' and leaseMs ~= '0') or (history ~= '' and string.byte(history) ~= 124) or
  fence + number + claimedAt + leaseMs + endsAt + retentionMs >= 1e17 then
  return {'${UNREADABLE}', '', string.match(string.sub(text, 1, 20), '^%d*')}
end
local isExpired = not (hold == '1' and (state == 'p' or state == 'l')) and
  now >= endsAt + retentionMs
`;

/** When the attempt was claimed, as a number. */
const CLAIMED_AT = "(claimedAt == '0' and math.floor(fence / 1000) or claimedAt + 0)";

/** The fence of a forgotten record, or nil. */
const FORGOTTEN_FENCE = `string.match(text, '^${RECORD_VERSION}f(%d+)$')`;

/** Writes the text and when Redis removes it. Redis formats a number argument without rounding. */
function write(rest: string, keptUntil: string): string {
  return `redis.call('SET', key, ${textWith(rest)}, 'PXAT', ${keptUntil} + ${COLLECT_AFTER_MS})`;
}

/** Writes the text of a record that Redis removes when it would have. */
function writeKept(rest: string): string {
  return `redis.call('SET', key, ${textWith(rest)}, 'KEEPTTL')`;
}

const REST = "string.sub(text, restAt)";

/**
 * Sets the time of removal that the record already has, so that a following WAIT has a write to wait for: WAIT waits for the
 * last write of its connection and for all earlier ones, including the completion. Redis accepts this write even at its
 * maxmemory.
 */
const WRITE_SETTLED = `redis.call('PEXPIREAT', key, endsAt + retentionMs + ${COLLECT_AFTER_MS})`;

/** Writes a new lease, together with other values that changed. */
const WRITE_LEASE = `
endsAt = ${formatWhole("now + leaseMs")}
if hold == '1' then redis.call('SET', key, ${textWith(REST)})
else ${write(REST, "endsAt + retentionMs")} end
`;

const START = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** The time as text, once for all calls of a script: formatting is slow. */
const NOW_TEXT = `local nowText = ${formatWhole("now")}`;

/** `pcall`, since a user without the permission to publish must not lose the step that was just written. */
const WAKE = "redis.pcall('PUBLISH', key, '')";

/** On a cluster, sent to the servers of the slot instead of to all. A server before Redis 7 does not know the command. */
const WAKE_SHARDED = `if type(redis.pcall('SPUBLISH', key, '')) == 'table' then ${WAKE} end`;

/** Turns the attempt that a claim replaces into an entry of the history, whose note stands in front of the earlier entries. */
const NEXT_HISTORY = `
local note, entries = string.match(history, '^|?([^;]*)(.*)$')
local at = 0
for i = 1, ${MAX_ENTRIES} do at = at and string.find(entries, ';', at + 1, true) end
if at then entries = string.sub(entries, 1, at - 1) end
local ended = state == 'r' and 'r' or state == 'l' and 'u' or endsAt
history = '|;' .. number .. ' ' .. fence .. ' ' .. ${formatWhole(CLAIMED_AT)} .. ' ' .. ended .. note .. entries
`;

/** Writes the end of the attempt into the note of its history. One that was given up and completed after that has an end already. */
function endHistory(at: string, how: string): string {
  return `
local renewals, entries = string.match(history, '^|?( ?[%d.]* ?[%d.]*)[^;]*(.*)$')
history = '|' .. (renewals == '' and ' 0 0' or renewals) .. ' ' .. ${at} .. ' ' .. ${how} .. entries
`;
}

/** Counts a renewal in the note. */
const RENEW_HISTORY = `
local renewals, entries = string.match(history, '^|? ?(%d*)[^;]*(.*)$')
history = '| ' .. ${formatWhole("(tonumber(renewals) or 0) + 1")} .. ' ' .. ${formatWhole("now")} .. entries
`;

/** Writes the claim, as a new record or over the one that it takes over. */
const GRANT = `
local clock = time[1] * 1000000 + time[2]
local fence = math.max(lastFence + 1, clock)
local number = lastNumber + 1
local leaseEndsAt = now + ourLeaseMs
-- Token and fingerprint are not formatted: '%s' ends at a zero byte.
local claimed = string.format('${RECORD_VERSION}p%.0f %.0f %s%s %.0f %s %.0f %s',
    fence, number, isHeld, isTakeover and '1' or '0', fence == clock and 0 or now, ourLeaseMs, leaseEndsAt, ourRetentionMs) ..
  before .. '\\n' .. ourToken .. '\\n' .. (ours ~= '' and ours or kept) .. '\\n' .. ourParts .. '\\n' .. lines
if isHeld == '1' then redis.call('SET', key, claimed)
else redis.call('SET', key, claimed, 'PXAT', leaseEndsAt + ourRetentionMs + ${COLLECT_AFTER_MS}) end
return {'new', fence, number, isTakeover and 1 or 0, lines ~= '' and lines or nil}`;

/**
 * `hold` is 0 or 1; takeover and fingerprint may be empty. Writes on `new`, and when a pending deadline shows that the clock
 * went back. Answers {'new', fence, number, tookOver, the lines of its steps if there are any}, {'pending', leaseLeftMs, elapsedMs},
 * {'completed', outcome}, {'conflict', state} or {'unknown', fence}. `onSettled` runs before the script answers with a
 * completed record, and `mark` stands in front of its outcome.
 */
function claimScript({ onSettled = "", mark = "" }: { onSettled?: string; mark?: string } = {}): LuaScript {
  return steps(
    ["ourToken", "ourLeaseMs", "ourRetentionMs", "ourHold", "takeover", "ourParts", "ours"],
    `${READ_TEXT}
local lastFence, lastNumber, isTakeover, isHeld, kept, lines, before = 0, 0, false, ourHold, '', '', ''
local forgotten = text and ${FORGOTTEN_FENCE}
if forgotten then lastFence = forgotten end
if not text or forgotten then
  if takeover ~= '' then return {'pending', 0} end
else
  ${PARSE}
  lastFence = fence
  if isExpired then
    if takeover ~= '' then return {'pending', 0} end
  else
    local seen = state
    if seen == 'p' and now >= endsAt + 0 then seen = 'l' end
    ${onSettled === "" ? "" : `if seen == 'c' then ${onSettled} end`}
    local rest = ${REST}
    local isContinued = seen ~= 'c' and rest ~= ''
    if (seen ~= 'r' or isContinued) and theirs ~= '' and ours ~= '' and theirs ~= ours and
      (string.match(theirs, '^[^:]*:') or '') == (string.match(ours, '^[^:]*:') or '') then
      return {'conflict', STATES[seen]}
    end
    if seen == 'c' then return {'completed', ${mark === "" ? "rest" : `'${mark}' .. rest`}} end
    if token == ourToken then
      -- own-claim-recognised: a repeat after a lost reply owns what it owned; after it gave up, it owns nothing.
      if state == 'l' or state == 'r' then return {'pending', 0} end
      leaseMs = ourLeaseMs
      if ourHold == '1' then hold = '1' end
      ${WRITE_LEASE}
      return {'new', fence + 0, number + 0, tookOver + 0, isContinued and rest or nil}
    end
    if seen == 'p' then
      local left = endsAt - now
      if left > leaseMs + ${CLOCK_BACK_MARGIN_MS} then
        ${WRITE_LEASE}
        left = leaseMs + 0
      end
      return {'pending', left, now - ${CLAIMED_AT}}
    end
    if seen == 'r' then
      if takeover ~= '' then return {'pending', 0} end
    else
      local mayTakeOver = takeover == fence
      if takeover == '' then mayTakeOver = hold == '0' and ourHold == '0' end
      if not mayTakeOver then return {'unknown', fence + 0} end
      isTakeover = true
      if hold == '1' then isHeld = '1' end
    end
    lastNumber = number
    ${NEXT_HISTORY}
    before = history
    -- The fingerprint of a lapsed attempt, or of one with steps, stays; of any other former life nothing does.
    if isTakeover or isContinued then kept, lines = theirs, rest end
  end
end
${GRANT}`,
    "local STATES = {p = 'pending', l = 'lapsed', r = 'released', c = 'completed'}",
  );
}

export const CLAIM = claimScript();
/** Writes even if the record is already completed, so that a following WAIT has a write to wait for. */
export const CLAIM_REPLICATED = claimScript({ onSettled: WRITE_SETTLED });
/** What CLAIM_MARKED puts in front of an outcome. */
export const OUTCOME_MARK = "=";
/** For a client that drops a byte order mark at the beginning of a text. Other scripts return outcomes inside their records. */
export const CLAIM_MARKED = claimScript({ mark: OUTCOME_MARK });

/** What all claims of a script have in common: the fence, the words of their records, and when Redis removes them. */
const CLAIM_WORDS = `
local fence = time[1] * 1000000 + time[2]
local leaseEndsAt = now + ARGV[1]
local words = string.format('${RECORD_VERSION}p%.0f 1 00 0 %s %.0f %s\\n', fence, ARGV[1], leaseEndsAt, ARGV[2])
local removedAt = string.format('%.0f', leaseEndsAt + ARGV[2] + ${COLLECT_AFTER_MS})
`;

/**
 * The common claims: writes a claim if its key is absent, and else answers with the record as it is. The client judges it
 * (redis/quick-claims.ts), which saves the server most of the time of CLAIM.
 *
 * KEYS: any number of records. ARGV: leaseMs and retentionMs of all claims, and for each key the lines of token, fingerprint
 * and parts. Answers the time in milliseconds, the fence of the claims that were written, and a list: for each key 1 if it
 * was written, its text, or 0 if CLAIM must find out what it is. Instead of the list 1 if all were written.
 *
 * It is one script because the fence, the time of the judgement and the claim belong to one moment. As commands in MULTI it
 * would cost the server as much and the client several times more, which has to read a reply to each of them; and it would
 * run together with a transaction that another user of the connection has open.
 */
function quickClaimText(readKeys: string): string {
  return `${START}${CLAIM_WORDS}
local call = redis.call
-- There is no text for an absent key, nor for one that an earlier claim of this group wrote, nor for another type of value.
${readKeys}
local written = 0
for i = 1, #KEYS do
  if not found[i] then
    if call('SET', KEYS[i], words .. ARGV[i + 2], 'NX', 'PXAT', removedAt) then
      found[i] = 1
      written = written + 1
    else found[i] = 0 end
  elseif found[i] == '1' then
    -- No record, but a client that returns numbers as text would read it as a claim that was written.
    found[i] = 0
  end
end
if written == #KEYS then return {now, fence, 1} end
return {now, fence, found}`;
}

export const QUICK_CLAIM: LuaScript = {
  ...script(quickClaimText("local found = call('MGET', unpack(KEYS))")),
  // MGET takes no keys of several slots.
  apart: apart(
    quickClaimText(`local found = {}
for i = 1, #KEYS do
  local text = redis.pcall('GET', KEYS[i])
  found[i] = type(text) == 'string' and text
end`),
  ),
};

/**
 * QUICK_CLAIM for claims that are likely to find a record, whose texts the client reads beside this script: Redis copies
 * each text several times on its way through a script.
 *
 * KEYS: any number of records. ARGV: leaseMs and retentionMs of all claims, and the lines of all claims in one text. Answers
 * the time in milliseconds, the fence of the claims that were written, and a list: for each key 1 if it was written, else 0.
 * Instead of the list 0 if none was written.
 */
export const CLAIM_ABSENT: LuaScript = script(`${START}
local call = redis.call
if call('EXISTS', unpack(KEYS)) == #KEYS then return {now, 0, 0} end
${CLAIM_WORDS}
local written = {}
for lines in string.gmatch(ARGV[3], '[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n') do
  local i = #written + 1
  written[i] = call('SET', KEYS[i], words .. lines, 'NX', 'PXAT', removedAt) and 1 or 0
end
return {now, fence, written}`);

/** GETEX is a write command that changes nothing here. A replica refuses it, and so never answers with old data. */
const REFUSED = "do redis.call('GETEX', key) return 0 end";

/** stale-token-refused: every step after the claim goes through this, with the text that it read. */
const OWNED = `${CHECK_TEXT}
if not text or ${FORGOTTEN_FENCE} then ${REFUSED} end
${PARSE}
if token ~= ourToken or isExpired then ${REFUSED} end
`;

/**
 * A repeated step changes nothing. It still writes, so that a following WAIT also waits for the first one, whose own WAIT
 * may have failed.
 */
const REPEATED = `
redis.call('SET', key, text, 'KEEPTTL')
return 1
`;

/** A new removal time costs Redis as much as the rest of the SET, so one that is a little too late is left as it is. */
const LATE_MS = 60_000;

/**
 * The completion of a pending record that is not held, which is nearly every one: as the general case below, but without
 * taking apart what stays as it is. Numbers that are too long are left to the general case, which refuses them.
 */
const COMPLETE_PENDING = `
if type(text) == 'string' then
  local kept, endsAt, retentionMs, token, lines = string.match(text,
    '^${RECORD_VERSION}p(%d+ %d+ 0[01] %d+ )%d+ (%d+) (%d+)\\n([^\\n]*)(\\n[^\\n]*\\n[^\\n]*\\n)')
  if token == ourToken and now < endsAt + retentionMs and
    #kept < 55 and #endsAt < 17 and #retentionMs < 17 then
    local completed = '${RECORD_VERSION}c' .. kept .. '0 ' .. nowText .. ' ' .. ourRetentionMs .. '\\n' ..
      token .. lines .. outcome
    local lateMs = endsAt + retentionMs - now - ourRetentionMs
    if lateMs >= 0 and lateMs <= ${LATE_MS} then redis.call('SET', key, completed, 'KEEPTTL')
    else redis.call('SET', key, completed, 'PXAT', now + ourRetentionMs + ${COLLECT_AFTER_MS}) end
    ${WAKE}
    return 1
  end
end
`;

/**
 * ARGV: a line for each key, all in one text, with retentionMs and the token; then the outcome of each key. Clients take time
 * for each argument, and Redis takes no longer to split one. Answers 1, or 0 and writes nothing.
 */
export const COMPLETE: LuaScript = eachKey(
  ["ourToken", "ourRetentionMs", "outcome"],
  `${GET_TEXT}${COMPLETE_PENDING}${OWNED}
if state == 'r' then ${REFUSED} end
if state == 'c' then ${REPEATED} end
state, leaseMs, endsAt, retentionMs = 'c', '0', nowText, ourRetentionMs
${write("outcome", "now + retentionMs")}
${WAKE}
return 1`,
  {
    constants: `${NOW_TEXT}\nlocal ownerAt = 1`,
    values: `local ourRetentionMs, ourToken, nextAt = string.match(ARGV[1], '^([^ ]*) ([^\\n]*)\\n()', ownerAt)
  local outcome = ARGV[i + 1]
  ownerAt = nextAt`,
  },
);

/** Answers 1, or 0 and writes nothing. */
export const ABANDON: LuaScript = steps(
  ["ourToken", "as"],
  `${GET_TEXT}${OWNED}
if state == 'c' then ${REFUSED} end
if state == 'l' or state == 'r' then ${REPEATED} end
${endHistory(formatWhole("now"), "as")}
local isReleased = as == 'released' or (as == 'unrun' and tookOver == '0')
state = isReleased and 'r' or 'l'
-- The end of the lease says when the record lapsed. How long it is kept does not change.
if not isReleased and endsAt + 0 > now then
  retentionMs = ${formatWhole("endsAt + retentionMs - now")}
  endsAt = ${formatWhole("now")}
end
if isReleased and hold == '1' then ${write(REST, "endsAt + retentionMs")} else ${writeKept(REST)} end
${WAKE}
return 1`,
);

/** Answers 1, or 0 and writes nothing. */
export const RENEW: LuaScript = steps(
  ["ourToken", "ourLeaseMs"],
  `${GET_TEXT}${OWNED}
if state ~= 'p' then ${REFUSED} end
leaseMs = ourLeaseMs
${RENEW_HISTORY}
${WRITE_LEASE}
return 1`,
);

/** `lineStart` and `lineEnd` are the line of the step, without the time in the middle. Answers 1, or 0 and writes nothing. */
export const KEEP_STEP: LuaScript = steps(
  ["ourToken", "lineStart", "lineEnd"],
  `${GET_TEXT}${OWNED}
if state ~= 'p' then ${REFUSED} end
local lines = ${REST}
if string.find('\\n' .. lines, '\\n' .. lineStart, 1, true) then ${REPEATED} end
${writeKept(`lines .. lineStart .. ${formatWhole("now")} .. lineEnd`)}
return 1`,
);

/**
 * Removes the record, except its fence. A completed one gets a marker as its outcome, or with `reopen` 1 is released. Answers
 * 1, or 0 and writes nothing.
 */
export const FORGET: LuaScript = {
  ...steps(
    ["ourFence", "reopen"],
    `${READ_TEXT}
if not text or ${FORGOTTEN_FENCE} then ${REFUSED} end
${PARSE}
if isExpired or fence ~= ourFence then ${REFUSED} end
if state == 'p' and now < endsAt + 0 then ${REFUSED} end
if state ~= 'c' then
  -- Redis removes a key even at its maxmemory, and then refuses no other write of the same script.
  redis.call('DEL', key)
  redis.call('SET', key, '${RECORD_VERSION}f' .. fence, 'PX', ${COLLECT_AFTER_MS})
elseif reopen == '1' then
  -- Kept for as long as it was: what is released counts from the end of its lease.
  ${endHistory("endsAt", "'completed'")}
  state = 'r'
  ${writeKept("''")}
else
  theirs, parts = '', ''
  ${writeKept(`'${FORGOTTEN}'`)}
end
${WAKE}
return 1`,
  ),
  // Repeated alone after its group failed, it would answer 0 for a record that it has removed.
  apart: undefined,
};

/** WRITE_SETTLED for a record that is read and not parsed. One write is enough: WAIT waits for all earlier ones too. */
const WRITE_FIRST_SETTLED = `
if not isWritten then
  local endsAt, retentionMs = string.match(text,
    '^${RECORD_VERSION}c%d+ %d+ [01][01] %d+ 0 (%d+) (%d+)[|\\n]')
  if endsAt and #retentionMs < 17 and #endsAt < 17 then
    isWritten = true
    ${WRITE_SETTLED}
  end
end
`;

/**
 * KEYS: any number of records. ARGV: how the parts must begin; empty for any. A replica never answers it. Returns the time in
 * milliseconds, then for each key its text, or nil. A record that cannot be read is reported to a caller that reads its key,
 * and in the list that it is known to belong to.
 */
function readScript(onSettled: string): LuaScript {
  return scriptForAny(`${START}
local answer = {now}
local start = ARGV[1]
local isWritten = false
for i = 1, #KEYS do
  local key = KEYS[i]
  local text = redis.pcall('GETEX', key)
  answer[i + 1] = false
  if type(text) == 'table' then
    if not string.find(text.err, 'WRONGTYPE', 1, true) then return text end
    if start == '' then answer[i + 1] = {'${UNREADABLE}', text.err} end
  elseif text and not ${FORGOTTEN_FENCE} then
    local parts = start ~= '' and string.match(text, '^[^\\n]*\\n[^\\n]*\\n[^\\n]*\\n([^\\n]*)\\n')
    if start == '' or (parts and string.sub(parts, 1, #start) == start) then
      ${onSettled}
      answer[i + 1] = text
    end
  end
end
return answer`);
}

export const READ = readScript("");
/** Writes if a record is completed, so that a following WAIT has a write to wait for. */
export const READ_REPLICATED = readScript(WRITE_FIRST_SETTLED);

/**
 * The same script with its keys as arguments, after their number. A server of a cluster refuses a script that declares keys of
 * several slots, but runs one that declares none, and raises an error as soon as it uses a key of another server.
 */
function apart(text: string): LuaScript {
  return script(`
local count = ARGV[1] + 0
local KEYS, ARGV = {unpack(ARGV, 2, count + 1)}, {unpack(ARGV, count + 2)}
${text}`);
}

/** Takes the step on each of KEYS. ARGV has the `names` of values for each key, in this order. */
function steps(names: readonly string[], step: string, constants = ""): LuaScript {
  const values = names.map((name, index) => `local ${name} = ARGV[(i - 1) * ${names.length} + ${index + 1}]`);
  return eachKey(names, step, { constants, values: values.join("\n  ") });
}

/**
 * Takes the step on each of KEYS, and answers in their order; with a single 1 if every answer is 1, which clients read in less
 * time. `values` sets the `names` for the key of index `i`.
 */
function eachKey(
  names: readonly string[],
  step: string,
  { constants, values }: { readonly constants: string; readonly values: string },
): LuaScript {
  return scriptForAny(`${START}${constants}
local function step(key, ${names.join(", ")})
${step}
end
local answers, done = {}, 0
for i = 1, #KEYS do
  ${values}
  answers[i] = step(KEYS[i], ${names.join(", ")})
  if answers[i] == 1 then done = done + 1 end
end
if done == #KEYS then return {1} end
return answers`);
}

function scriptForAny(text: string): LuaScript {
  const sharded = text.replaceAll(WAKE, WAKE_SHARDED);
  const both = { ...script(text), apart: apart(text) };
  return sharded === text ? both : { ...both, sharded: { ...script(sharded), apart: apart(sharded) } };
}

export function script(text: string): LuaScript {
  return { text, sha: sha1(text) };
}
