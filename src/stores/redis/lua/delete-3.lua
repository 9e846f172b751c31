-- Forgets a task. Its live readers learn it from a last entry of the deltas, which outlives the rest by a minute.
-- KEYS  1 head  2 journal  3 deltas
-- Gives {OK, contextId or ''}
local head = redis.call('HMGET', KEYS[1], 'contextId', 'seq')
redis.call('UNLINK', KEYS[1], KEYS[2], keyOf('b'), keyOf('c'), keyOf('i'))
if not head[1] then
  redis.call('UNLINK', KEYS[3])
  return { OK, '' }
end
redis.call('XADD', KEYS[3], head[2] .. '-*', 'x', '1')
redis.call('EXPIRE', KEYS[3], 60)
return { OK, head[1] }
