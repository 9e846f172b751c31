-- Forgets a task, or tells of its child turns first: the caller deletes those and calls again. A page of the journal is looked at in one
-- call. Also where the journal is damaged. Live readers learn it from a last entry of the deltas, which outlives
-- the rest, the deltas before it too, by a minute.
-- KEYS  1 head  2 journal  3 deltas  [4 index of runnable tasks]
-- ARGV  1 last entry of the journal that was looked at before ('-' for none)  2 the parent turn that the task has to have ('' for any)
--       3 entries looked at in one call
-- Gives {OK, 1, contextId or '', the parent turn or ''} where it is gone, {OK, 0, last entry looked at, child turns} where it is not
local function payloadOf(entry)
  if entry[2][1] ~= 'b' then return entry[2][2] end
  return redis.call('HGET', keyOf('b'), entry[2][2]) or ''
end

-- The task id of a link of a record; nil where there is none.
local function linked(payload, name)
  if not string.find(payload, '"' .. name .. '"', 1, true) then return nil end
  local ok, record = pcall(cjson.decode, payload)
  local link = ok and type(record) == 'table' and record[name]
  local taskId = type(link) == 'table' and link.taskId
  return type(taskId) == 'string' and taskId or nil
end

local head = redis.call('HMGET', KEYS[1], 'contextId', 'seq', 'parent', 'due', 'status')
local parent = head[3] or ''
if ARGV[2] ~= '' and parent ~= ARGV[2] then
  local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
  if head[1] or not first or linked(payloadOf(first), 'parent') ~= ARGV[2] then return { OK, 1, '', '' } end
end

local from = ARGV[1] == '-' and '-' or '(' .. ARGV[1]
local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', ARGV[3])
local children = {}
for _, entry in ipairs(entries) do
  local child = linked(payloadOf(entry), 'child')
  if child then children[#children + 1] = child end
end
if #children > 0 or #entries == tonumber(ARGV[3]) then return { OK, 0, entries[#entries][1], children } end

due(nil)
taken(head[4])
if head[1] then listed(head[5], nil) end
redis.call('UNLINK', KEYS[1], KEYS[2], keyOf('b'), keyOf('c'), keyOf('i'))
if not head[1] then
  redis.call('UNLINK', KEYS[3])
  return { OK, 1, '', '' }
end
-- A trimmed stream would still hold the bytes of its deltas; the id has to be above those that readers have seen.
local last = redis.call('XADD', KEYS[3], head[2] .. '-*', 'x', '1')
redis.call('UNLINK', KEYS[3])
redis.call('XADD', KEYS[3], last, 'x', '1')
redis.call('EXPIRE', KEYS[3], 60)
return { OK, 1, head[1], parent }
