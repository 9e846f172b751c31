-- Prolongs a lease from now. A task whose keys have a time to live gets it anew: a turn that somebody works on does not expire.
-- KEYS  1 head  [2 index of runnable tasks]
-- ARGV  1 owner  2 epoch  3 length of the lease, ms  4 seconds to live (below 0: none)
-- Gives {OK} | {NOT_FOUND} | {FENCED}
local head = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'status')
if not head[1] then return { NOT_FOUND } end
if head[2] ~= ARGV[1] or head[1] ~= ARGV[2] then return { FENCED } end
local expires = now() + ARGV[3]
redis.call('HSET', KEYS[1], 'expires', whole(expires))
if RUNNABLE[head[3]] then due(expires) end
if redis.call('PTTL', KEYS[1]) > 0 then keep(tonumber(ARGV[4])) end
return { OK }
