-- Stands in front of every script. KEYS[1] is always the head of a task, the hash {prefix}:{<taskId>}:h.
-- The other keys of a task differ in the last letter and share its slot by the hash tag. A call names those that its script lists; in a
-- cluster it names the others after them, so that a node that has only some of them while slots move does not run it.
--   j journal (stream, ids <seq>-<epoch>)   b payloads over 256 KB (hash by SHA-256)   d deltas (stream, ids <seq>-<n>)
--   c commands (stream)                     i ids of commands (sorted set, by the number of the command)
-- Codes of the answers, first in each:
local OK, NOT_FOUND, FENCED, TERMINAL, REWOUND, BUSY, SCHEMA, TORN = 0, -1, -2, -3, -4, -5, -6, -7

local function keyOf(letter)
  return string.sub(KEYS[1], 1, -2) .. letter
end

-- Milliseconds since 1970 by the server's clock, the only one that leases know.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Lua would write numbers from 1e14 on as powers of ten.
local function whole(number)
  return string.format('%.0f', number)
end

-- The states of a task that anybody may take whose lease does not hold it.
local RUNNABLE = { submitted = true, working = true }

-- Says when a task may be taken, or with nil that it may not. The index of all tasks is the last key of a call; in a cluster, where it is
-- in another slot, the caller tells it. Tasks that nobody holds and that back off are in a second set, by the time until which they do.
local function due(at)
  local index = KEYS[#KEYS]
  if string.sub(index, -4) ~= ':due' then return end
  local taskId = string.match(KEYS[1], '{(.*)}')
  if at then redis.call('ZADD', index, whole(at), taskId) else redis.call('ZREM', index, taskId) end
end

-- Says that nobody holds a task that backs off until `later` (a field of the head, '0' or nil where it does not).
local function free(later)
  local index = KEYS[#KEYS]
  if not later or later == '0' or string.sub(index, -4) ~= ':due' then return due(now()) end
  due(nil)
  redis.call('ZADD', index .. '-later', later, (string.match(KEYS[1], '{(.*)}')))
end

-- Says that a task that backed off is held or gone.
local function taken(later)
  local index = KEYS[#KEYS]
  if not later or later == '0' or string.sub(index, -4) ~= ':due' then return end
  redis.call('ZREM', index .. '-later', (string.match(KEYS[1], '{(.*)}')))
end

-- Moves a task between the indexes of two states, nil for none, by the time of its creation. In a cluster the caller does.
local function listed(before, after)
  local index = KEYS[#KEYS]
  if before == after or string.sub(index, -4) ~= ':due' then return end
  local head = redis.call('HMGET', KEYS[1], 'contextId', 'createdAt', 'parent')
  local member = string.match(KEYS[1], '{(.*)}') .. (head[3] and '<' .. head[3] or '') .. ' ' .. head[1]
  local ofState = string.sub(index, 1, -4) .. 'state:'
  if before then redis.call('ZREM', ofState .. before, member) end
  if after then redis.call('ZADD', ofState .. after, head[2], member) end
end

-- Gives all keys of the task the same time to live, in seconds; below 0 they stay.
local function keep(seconds)
  for letter in string.gmatch('hjbdci', '.') do
    if seconds < 0 then
      redis.call('PERSIST', keyOf(letter))
    else
      redis.call('EXPIRE', keyOf(letter), whole(seconds))
    end
  end
end

-- The same if it is due: a renewal within the same second changes nothing.
local function keepWhenDue(seconds)
  local remaining = redis.call('PTTL', KEYS[1])
  if seconds < 0 and remaining == -1 then return end
  if seconds >= 0 and remaining > seconds * 1000 - 1000 and remaining <= seconds * 1000 then return end
  keep(seconds)
end

-- Lets a key live as long as the head does.
local function keepAsHead(key)
  local remaining = redis.call('PTTL', KEYS[1])
  if remaining > 0 then redis.call('PEXPIRE', key, whole(remaining)) else redis.call('PERSIST', key) end
end

-- The seq of the journal's last entry; 0 where it is empty or gone.
local function lastSeq(journal)
  local last = redis.call('XREVRANGE', journal, '+', '-', 'COUNT', 1)[1]
  return last and tonumber(string.match(last[1], '^%d+')) or 0
end

-- Adds a record. One with a digest goes to the blobs first, and its entry holds the digest.
local function write(journal, seq, epoch, payload, digest)
  local field, value = 'r', payload
  if digest ~= '' then
    redis.call('HSETNX', keyOf('b'), digest, payload)
    if redis.call('EXISTS', KEYS[1]) == 1 then keepAsHead(keyOf('b')) end
    field, value = 'b', digest
  end
  redis.call('XADD', journal, whole(seq) .. '-' .. whole(epoch), field, value)
end
