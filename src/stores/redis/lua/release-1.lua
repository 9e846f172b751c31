-- Gives a lease back. Does nothing where it is no longer held or the task is gone. Also runs out of memory.
-- KEYS  1 head
-- ARGV  1 owner  2 epoch
-- Gives {OK}
local head = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
if head[1] == ARGV[2] and head[2] == ARGV[1] then redis.call('HSET', KEYS[1], 'owner', '') end
return { OK }
