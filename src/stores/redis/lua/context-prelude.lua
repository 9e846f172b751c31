-- Stands in front of every script of the message store. KEYS are always those of one context, in one slot by the hash tag:
--   1 head     {prefix}:{<contextId>}:mh  hash: layout, total, version, metadata, nonce, begun, agentId, createdAt, updatedAt, bytes
--   2 messages …:mm                       list of JSON texts
--   3 turns    …:mt                       hash by task id: 'open', or the nonce of the call that appended its messages
--   4 open     …:mo                       sorted set of the task ids of open turns, by the number they were begun with
-- Codes of the answers, first in each:
local OK, NOT_FOUND, SCHEMA, TORN, CONFLICT = 0, -1, -6, -7, -8
local LAYOUT = 1

-- Milliseconds since 1970 by the server's clock. Lua would write numbers from 1e14 on as powers of ten.
local function now()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- An answer that refuses the context as it stands; nil where it can be used.
local function flaw()
  local head = redis.call('HMGET', KEYS[1], 'layout', 'total')
  if head[1] and tonumber(head[1]) > LAYOUT then return { SCHEMA, tonumber(head[1]) } end
  local total, length = tonumber(head[2] or 0), redis.call('LLEN', KEYS[2])
  if total ~= length then return { TORN, total, length } end
end

-- Notes a change of the context, and gives it its time to live in seconds; below 0 it stays. While a turn is open it stays too.
-- Gives 1 where the context was not there before.
local function changed(seconds)
  local at = now()
  local created = redis.call('HSETNX', KEYS[1], 'createdAt', at)
  redis.call('HSET', KEYS[1], 'layout', LAYOUT, 'updatedAt', at)
  local stays = tonumber(seconds) < 0 or redis.call('EXISTS', KEYS[4]) == 1
  for _, key in ipairs(KEYS) do
    if stays then redis.call('PERSIST', key) else redis.call('EXPIRE', key, seconds) end
  end
  return created
end
