-- Takes the lease away from its owner: a higher epoch and no owner, so that the owner is fenced off. Also runs out of memory.
-- KEYS  1 head  [2 index of runnable tasks]
-- ARGV  1 step of the epoch
-- Gives {OK, 1 if somebody owned the task} | {NOT_FOUND}
local head = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'ended', 'status', 'expires', 'lease', 'due')
if not head[1] then return { NOT_FOUND } end
if head[2] == '' or head[3] == '1' then return { OK, 0 } end
redis.call('HSET', KEYS[1], 'owner', '', 'epoch', whole(tonumber(head[1]) + tonumber(ARGV[1])),
  'left', whole(tonumber(head[5]) - tonumber(head[6] or 0)))
if RUNNABLE[head[4]] then free(head[7]) end
return { OK, 1 }
