-- A page of the tasks that anybody may take, the one that waits longest first. The index is mended on the way: a task that is gone, has
-- ended or is suspended goes, and one whose owner has prolonged its lease by an append is due later. Not for a cluster.
-- KEYS  1 index of runnable tasks
-- ARGV  1 what all keys begin with  2 entries to pass over, which earlier pages had  3 tasks at most
-- Gives {0, 1 if there may be more, tasks: {task id, then what `describe` gives of it}}
local RUNNABLE = { submitted = true, working = true }
local time = redis.call('TIME')
time = time[1] * 1000 + math.floor(time[2] / 1000)
local offset, size = tonumber(ARGV[2]), tonumber(ARGV[3])
local found, looked = {}, 0
while #found < size do
  -- Redis answers nobody else meanwhile.
  if looked >= 1000 then return { 0, 1, found } end
  local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', time, 'LIMIT', offset, size - #found)
  if #ids == 0 then return { 0, 0, found } end
  looked = looked + #ids
  for _, id in ipairs(ids) do
    local head = redis.call('HMGET', ARGV[1] .. ':{' .. id .. '}:h', 'contextId', 'agentId', 'status', 'seq', 'createdAt',
      'updatedAt', 'statusAt', 'parent', 'owner', 'expires', 'ended', 'lease', 'bytes')
    local remaining = head[10] and head[9] ~= '' and tonumber(head[10]) - time or 0
    if not head[1] or not RUNNABLE[head[3]] or head[11] == '1' then
      redis.call('ZREM', KEYS[1], id)
    elseif remaining > 0 and remaining <= (tonumber(head[12]) or remaining) then
      redis.call('ZADD', KEYS[1], head[10], id)
    else
      offset = offset + 1
      found[#found + 1] = { id, 0, head[1], head[2], head[3], tonumber(head[4]), head[5], head[6], 0, head[7] or head[5],
        head[8] or '', head[13] or '' }
    end
  end
end
return { 0, 1, found }
