-- Gives a lease back. Does nothing where it is no longer held or the task is gone. Also runs out of memory.
-- KEYS  1 head  [2 index of runnable tasks]
-- ARGV  1 owner  2 epoch  3 what the next lease says of the owner before, or ''
-- Gives {OK}
local head = redis.call('HMGET', KEYS[1], 'epoch', 'owner', 'status', 'ended', 'due')
if head[1] == ARGV[2] and head[2] == ARGV[1] then
  redis.call('HSET', KEYS[1], 'owner', '', 'left', ARGV[3] or '')
  if RUNNABLE[head[3]] and head[4] ~= '1' then free(head[5]) end
end
return { OK }
