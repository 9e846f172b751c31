-- A page of the tasks that anybody may take, the one that waits longest first, then those that back off, the one that is due first. The index
-- is mended on the way: a task that is gone, has ended or is suspended goes, and one whose owner has prolonged its lease by an append is due
-- later. Not for a cluster.
-- KEYS  1 index of runnable tasks
-- ARGV  1 what all keys begin with  2 3 entries to pass over in each of the two sets, which earlier pages had  4 tasks at most
--       5 until when a task may back off, ms or +inf
-- Gives {0, 1 if there may be more, tasks: {task id, then what `describe` gives of it}, entries to pass over next in each}
local RUNNABLE = { submitted = true, working = true }
local time = redis.call('TIME')
time = time[1] * 1000 + math.floor(time[2] / 1000)
local offsets, size = { tonumber(ARGV[2]), tonumber(ARGV[3]) }, tonumber(ARGV[4])
local sets = { KEYS[1], KEYS[1] .. '-later' }
local most = { time, ARGV[5] }
local found, looked = {}, 0
for place, set in ipairs(sets) do
  while #found < size do
    -- Redis answers nobody else meanwhile.
    if looked >= 1000 then return { 0, 1, found, offsets[1], offsets[2] } end
    local ids = redis.call('ZRANGEBYSCORE', set, '-inf', most[place], 'LIMIT', offsets[place], size - #found)
    if #ids == 0 then break end
    looked = looked + #ids
    for _, id in ipairs(ids) do
      local head = redis.call('HMGET', ARGV[1] .. ':{' .. id .. '}:h', 'contextId', 'agentId', 'status', 'seq', 'createdAt',
        'updatedAt', 'statusAt', 'parent', 'owner', 'expires', 'ended', 'lease', 'bytes', 'due')
      local remaining = head[10] and head[9] ~= '' and tonumber(head[10]) - time or 0
      local due = head[14] or '0'
      if not head[1] or not RUNNABLE[head[3]] or head[11] == '1' then
        redis.call('ZREM', set, id)
      elseif remaining > 0 and remaining <= (tonumber(head[12]) or remaining) then
        redis.call('ZREM', set, id)
        redis.call('ZADD', KEYS[1], head[10], id)
      elseif place == 1 and due ~= '0' then
        redis.call('ZREM', set, id)
        redis.call('ZADD', sets[2], due, id)
      else
        offsets[place] = offsets[place] + 1
        found[#found + 1] = { id, 0, head[1], head[2], head[3], tonumber(head[4]), head[5], head[6], 0, head[7] or head[5],
          head[8] or '', head[13] or '', due }
      end
    end
  end
end
return { 0, #found == size and 1 or 0, found, offsets[1], offsets[2] }
