-- The load of the HTTP benchmark, for wrk. Request number n (from 0) has key and order number n modulo `keys`, so that more
-- requests than keys are retries. It ends after `total` requests, whatever the duration that wrk was given.
local ffi = require("ffi")
ffi.cdef("int kill(int pid, int signal); int getpid(void);")
local SIGINT = 2

local head, middle, tail, keys, total
local sent = 0

-- path, what precedes and follows the number in a key's header and in the body, how many keys, how many requests
function init(args)
  local path, account, prefix, bodyHead, bodyTail = args[1], args[2], args[3], args[4], args[5]
  keys, total = tonumber(args[6]), tonumber(args[7])
  local length = #bodyHead + 9 + #bodyTail
  head = "POST " .. path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
    .. "\r\nAuthorization: " .. account
    .. "\r\nContent-Type: application/json\r\nContent-Length: " .. length
    .. "\r\nIdempotency-Key: " .. prefix
  middle = "\r\n\r\n" .. bodyHead
  tail = bodyTail
end

function request()
  if sent == total then
    wrk.thread:stop()
    -- wrk itself sleeps until its duration is over, or until this.
    ffi.C.kill(ffi.C.getpid(), SIGINT)
  end
  local n = sent % keys
  sent = sent + 1
  return string.format("%s%012d%s%09d%s", head, n, middle, n, tail)
end

-- In microseconds.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration":%d,"p50":%d,"p99":%d,"refused":%d,"lost":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
